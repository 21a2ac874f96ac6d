"""Check of the languages that a document names."""

from __future__ import annotations

from seqloom.document.formats.base import Languages
from seqloom.errors import SeqloomError
from seqloom.languages import matches


def check_languages(own: Languages, wanted: tuple[str, str], name: str) -> None:
    """Raise an error if a document is in other languages than those of the translation.

    Languages that are not known on both sides are not compared. A document whose target language is its source
    language is a template: the catalogue of a program in its own language.
    """
    source, target = own
    to_source, to_target = (bool(target and one and matches(target, one)) for one in wanted)
    differs = bool(source and wanted[0] and not matches(source, wanted[0]))
    if differs or (target and wanted[1] and not to_target and not to_source):
        languages = " to ".join(one or "?" for one in own)
        raise SeqloomError(
            f"{name} is a translation from {languages}, not from {wanted[0]} to {wanted[1]}.",
            "use a model for its languages, or name those of the translation with --languages",
        )
