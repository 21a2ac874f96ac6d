"""Python code that uses an exported folder without seqloom: for its README, and to verify the export."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from seqloom.errors import SeqloomError
from seqloom.text.config import MASK
from seqloom.text.marian import MarianTokenizer
from seqloom.text.normalize import Normalizer
from seqloom.text.tokenizer import Tokenizer

# Text that plain SentencePiece encodes differently: symbols that it reserves, which seqloom treats as text.
_RESERVED = ("▁", "\ue009", MASK)

README = "README.md"
EXAMPLE = """folder = "."  # where this file is
lines = ["A line to translate.", "Another one."]
"""


def normalized(tokenizer: Tokenizer) -> str:
    """Return the Python expression that prepares a `line` for SentencePiece as seqloom does."""
    normalizer, line = tokenizer.settings.normalizer, "line"
    if normalizer.lowercase:
        line = f"{line}.lower()"
    if normalizer.normalize != "none":
        line = f'unicodedata.normalize("{normalizer.normalize.upper()}", {line})'
    if isinstance(tokenizer, MarianTokenizer):
        return line
    return f'" ".join({line}.split())' if normalizer.collapse_spaces else rf'{line}.replace("\t", "\ue009")'


def denormalized(tokenizer: Tokenizer, output: str) -> str:
    """Return the Python expression that turns the `output` of SentencePiece into that of seqloom."""
    if isinstance(tokenizer, MarianTokenizer):
        return f"{output}.strip()"
    if tokenizer.settings.kind == "word":  # an unknown word spelled in bytes starts with a ▁
        output = rf'{output}.removeprefix("▁").replace("▁", " ")'
    return output if tokenizer.settings.normalizer.collapse_spaces else rf'{output}.replace("\ue009", "\t")'


def imports(code: str, *modules: str) -> str:
    """Return the code with the imports that it needs."""
    needed = (["import unicodedata", ""] if "unicodedata." in code else []) + list(modules)
    return "\n".join((*needed, "", code))


def reserved_text(tokenizer: Tokenizer) -> list[str]:
    """Return a note on the text that plain SentencePiece encodes differently, if there is any."""
    if isinstance(tokenizer, MarianTokenizer):
        return []
    return ["Text that contains ▁ (U+2581), U+E009 or [MASK] is encoded differently."]


def changed_tags(tokenizer: Tokenizer) -> list[str]:
    """Return a note on the tags that plain code does not recognise, if there are any."""
    untagged = _untagged(tokenizer)
    changed = ", ".join(tag for tag in tokenizer.settings.normalizer.tags if untagged(tag) != tag)
    return [f"The tags {changed} are not recognised, because normalising changes them."] if changed else []


def comparable(tokenizer: Tokenizer, lines: Sequence[str]) -> list[str]:
    """Return the lines that plain SentencePiece is expected to encode as seqloom does."""
    untagged = _untagged(tokenizer)
    plain = (line for line in lines if line.strip() and not any(text in line for text in _RESERVED))
    return [line for line in plain if untagged(line) == tokenizer.settings.normalizer(line)]


def _untagged(tokenizer: Tokenizer) -> Normalizer:
    """Return the tokenizer's normalizer without tags, as in plain code, which treats them as text."""
    return Normalizer.model_validate({**tokenizer.settings.normalizer.model_dump(), "tags": ()})


class PlainRun(NamedTuple):
    """Output of the code of a README: the pieces of each line, and its translation."""

    pieces: list[list[str]]
    outputs: list[str]


def run_plain(code: str, folder: Path, lines: Sequence[str]) -> PlainRun:
    """Run the code of a README in a separate process, without seqloom."""
    start, end = "folder, lines = json.load(sys.stdin)", "json.dump([pieces, outputs], sys.stdout)"
    done = subprocess.run(
        # -P: import nothing from the current folder
        [sys.executable, "-P", "-c", f"import json, sys\n{start}\n{code}{end}"],
        input=json.dumps([str(folder), lines]),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        raise SeqloomError(
            f"The code in the exported {README} fails: {reason}. Nothing was written.",
            "check that `import ctranslate2, sentencepiece` works in a new Python process",
        )
    return PlainRun(*json.loads(done.stdout))


def readme(title: str, code: str, notes: Sequence[str], *, install: str, checked: str) -> str:
    """Return the README of an exported folder."""
    listed = "\n".join(f"- {note}" for note in notes)
    return f"""# {title}

Exported by seqloom, which {checked}.

```bash
pip install {install}
```

Set the folder and the lines to translate:

```python
{EXAMPLE}```

Then `outputs` contains the translations:

```python
{code}```

Differences from `seqloom translate` with the original model:

{listed}
"""
