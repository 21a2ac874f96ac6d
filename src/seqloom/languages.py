"""Language codes such as `en`, `pt-BR` and `zh-Hant`, and pairs of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from seqloom.errors import SeqloomError, quoted

_CODE = r"[a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:-(?:[A-Z]{2}|\d{3}))?"  # language, script, region, as in BCP 47
_PAIR = re.compile(rf"({_CODE})-({_CODE})")
_SCRIPTS = {"latin": "Latn", "cyrillic": "Cyrl", "devanagari": "Deva", "arabic": "Arab"}  # gettext modifiers

_SCRIPT_OF = {"zh-CN": "Hans", "zh-SG": "Hans", "zh-TW": "Hant", "zh-HK": "Hant", "zh-MO": "Hant"}


class LanguagePair(NamedTuple):
    """Source and target language of a corpus or a model."""

    source: str
    target: str

    @classmethod
    def parse(cls, value: object) -> Self:
        """Return the pair of a text such as `en-de`, `en-GB-pt-BR` or `en-GB,pt-BR`, or of two codes."""
        if isinstance(value, str):
            codes = value.split(",") if "," in value else _split(value)
        else:
            codes = list(value) if isinstance(value, Iterable) else []
        normal = [language_code(code) if isinstance(code, str) else None for code in codes]
        if len(normal) != 2 or normal[0] is None or normal[1] is None:
            raise SeqloomError(
                f"{quoted(value)} is not a pair of languages.",
                "give two codes of BCP 47, e.g. en-de, or en-GB,pt-BR",
            )
        return cls(normal[0], normal[1])

    @property
    def reverse(self) -> Self:
        """The pair of the other direction."""
        return type(self)(self.target, self.source)

    def __str__(self) -> str:
        return (",".join if any("-" in code for code in self) else "-".join)(self)


def language_code(text: str) -> str | None:
    """Return a code in the usual letter case, e.g. `pt-BR` for `pt_br`; None if it is not a language code."""
    plain, _, modifier = text.strip().partition(".")[0].partition("@")
    language, *subtags = plain.replace("_", "-").split("-")
    if modifier.lower() in _SCRIPTS:
        subtags.insert(0, _SCRIPTS[modifier.lower()])
    cased = [language.lower(), *(tag.title() if len(tag) == 4 else tag.upper() for tag in subtags)]
    code = "-".join(cased)
    return code if re.fullmatch(_CODE, code, re.ASCII) else None


def matches(code: str, wanted: str) -> bool:
    """Return whether a code is the wanted language: the same one, with or without script and region.

    `pt` and `pt-BR` match, `pt-PT` and `pt-BR` do not. A region of Chinese implies its script: `zh-TW` matches
    `zh-Hant`, but not `zh-Hans`.
    """
    if code == wanted:
        return True
    one, other = _subtags(code), _subtags(wanted)
    return one[0] == other[0] and all(a == b or not a or not b for a, b in zip(one[1:], other[1:], strict=True))


def _subtags(code: str) -> tuple[str, str, str]:
    """Return language, script and region of a code, which are empty if the code does not have them."""
    language, *others = code.split("-")
    script = next((tag for tag in others if len(tag) == 4), "") or _SCRIPT_OF.get(code, "")
    return language, script, next((tag for tag in others if len(tag) != 4), "")


def _split(text: str) -> Sequence[str]:
    """Return the codes of a pair written with hyphens; the letter case tells regions from languages."""
    parts = text.replace("_", "-").split("-")
    if len(parts) == 2 and not (parts[0].islower() and parts[1].isupper()):  # pt-BR is one language
        return parts
    match = _PAIR.fullmatch("-".join(parts))
    return match.groups() if match else ()


def base_language(code: str) -> str:
    """Return the language of a code without script and region: `pt` for `pt-BR`."""
    return code.replace("_", "-").partition("-")[0].lower()
