"""Quality of a translated PO file, measured with the translations that people have made.

    python benchmarks/catalogue.py translated.po human.po --memory gettext/train.jsonl --languages en,pt-BR

Texts with an equal text in the memory are counted apart from those that the model has translated.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from typing import NamedTuple

from command import run_command

from seqloom.data.units.po import Entry, read_entries
from seqloom.document import TranslationMemory
from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import evaluate
from seqloom.languages import LanguagePair


class Text(NamedTuple):
    """Text of a catalogue with its translation by the model and by a person."""

    source: str
    output: str
    human: str
    is_fuzzy: bool


def read_texts(translated: str, human: str) -> list[Text]:
    """Return the texts that have a human translation, each plural form by itself."""
    outputs = {_key(entry): entry for entry in read_entries(translated) if not entry.obsolete}
    texts = []
    for entry in read_entries(human):
        output = outputs.get(_key(entry))
        if entry.obsolete or "fuzzy" in entry.flags or not entry.text("msgid") or output is None:
            continue
        forms = zip(output.translations, entry.translations, strict=False)
        for i, (ours, theirs) in enumerate(forms):
            source = entry.text("msgid_plural") if i else entry.text("msgid")
            if theirs.strip():
                texts.append(Text(source, ours, theirs, "fuzzy" in output.flags))
    if not texts:
        raise SeqloomError(
            f"{translated} and {human} have no text in common.", "give two translations of one catalogue"
        )
    return texts


def _key(entry: Entry) -> tuple[str, str]:
    return entry.text("msgctxt"), entry.text("msgid")


def describe(name: str, texts: Sequence[Text]) -> str:
    """Return the scores of some texts."""
    if not texts:
        return f"{name}: 0"
    scores = evaluate([one.output for one in texts], [[one.human] for one in texts], "bleu,chrf", bootstrap=0)
    equal = sum(one.output == one.human for one in texts)
    fuzzy = sum(one.is_fuzzy for one in texts)
    values = ", ".join(f"{score.name} {score.value:.1f}" for score in scores)
    return f"{name}: {len(texts)}; {values}; equal to the human translation: {equal}; marked fuzzy: {fuzzy}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("translated")
    parser.add_argument("human", help="the same catalogue with human translations")
    parser.add_argument("--memory", help="memory that the translation used")
    parser.add_argument("--languages", type=LanguagePair.parse)
    parser.add_argument("--examples", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    texts = read_texts(options.translated, options.human)
    memory = TranslationMemory.read(options.memory, options.languages) if options.memory else ()
    known = [one for one in texts if one.source in memory]
    new = [one for one in texts if one.source not in memory]
    print(describe("all texts", texts))
    print(describe("from the memory", known))
    print(describe("from the model", new))
    chosen = random.Random(options.seed).sample(new, min(options.examples, len(new)))
    for one in sorted(chosen, key=lambda text: len(text.source)):
        print(f"\nsource  {one.source!r}\noutput  {one.output!r}\nhuman   {one.human!r}")


if __name__ == "__main__":
    run_command(main)
