"""A corpus of short summaries: the docstrings of installed packages, as description and first line.

Files are parsed, never imported, so nothing of a package is executed. The text is written for the machine that
it is collected on and depends on the installed packages.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol, TypeVar

from seqloom.cleaning.duplicates import Duplicates, normalised
from seqloom.errors import SeqloomError
from seqloom.files import write_json
from seqloom.outputs import check_can_write, write_output
from seqloom.progress import counter

PARTS = ("train", "valid", "test")
_SHARE = 0.1  # of the pairs at most, for validation and for testing
_SUMMARY_WORDS, _DESCRIPTION_WORDS = range(3, 26), range(12, 161)
_SHINGLE = 5  # words
_SEEN_SHINGLES = 0.5  # of a description that make it a near duplicate
_SECTION = re.compile(  # what follows is not a description: headings, fields, examples, directives, tables
    r"^\s*(?:[\w ]+:?\s*\n\s*[-=~^]{3,}|(?:Args|Arguments|Attributes|Example|Examples|Keyword Args|Note|Notes"
    r"|Parameters|Params|Raises|References|Return|Returns|See Also|Usage|Warning|Warns|Yields)\s*:+\s*$"
    r"|:\w[^:\n]*:|@\w+|>>>|\.\. |\$ |```|\|)",
    re.MULTILINE,
)


class DocstringPair(NamedTuple):
    """Description and first line of one docstring."""

    description: str
    summary: str
    package: str


@dataclass
class DocstringCounts:
    """What was read, kept and dropped."""

    packages: int = 0
    files: int = 0
    unreadable: int = 0
    docstrings: int = 0
    unsuitable: int = 0  # without a one-line summary and a description of the right lengths
    duplicates: int = 0
    near_duplicates: int = 0
    parts: dict[str, Counter[str]] = field(default_factory=dict)  # pairs by part and package

    def summary(self) -> str:
        """Return the counts as text."""
        lines = [
            f"{self.docstrings:,} docstrings in {self.files:,} files of {self.packages} packages "
            f"({self.unreadable} files cannot be parsed)",
            f"dropped: {self.unsuitable:,} unsuitable, {self.duplicates:,} duplicates, "
            f"{self.near_duplicates:,} near duplicates",
        ]
        lines += [
            f"{name}: {found.total():,} pairs of {len(found)} packages" for name, found in self.parts.items()
        ]
        return "\n".join(lines)


def make_docstrings(folder: Path, *, seed: int, count: int | None = None) -> DocstringCounts:
    """Write train.tsv, valid.tsv, test.tsv and report.json, and return the counts."""
    folder.mkdir(parents=True, exist_ok=True)
    check_can_write(folder / "report.json")
    counts = DocstringCounts()
    parts = split_by_package(collect(installed_files(), counts), seed=seed, count=count)
    counts.parts = {part: Counter(pair.package for pair in pairs) for part, pairs in parts.items()}
    for part, pairs in parts.items():
        table = "".join(f"{pair.description}\t{pair.summary}\n" for pair in pairs)
        write_output(folder / f"{part}.tsv", table)
    write_json(folder / "report.json", vars(counts))
    return counts


def installed_files() -> Iterator[tuple[str, Path]]:
    """Yield package name and path of every Python file of the installed packages, except tests."""
    found = {dist.metadata["Name"]: dist for dist in distributions() if dist.metadata["Name"]}
    for name in sorted(found, key=str.lower):
        for file in found[name].files or ():
            if file.suffix == ".py" and not {"test", "tests", "testing"} & set(file.parts):
                yield name.lower(), Path(str(file.locate()))


def collect(files: Iterable[tuple[str, Path]], counts: DocstringCounts) -> list[DocstringPair]:
    """Return the pairs of all files without duplicates; `counts` is updated."""
    rule = Duplicates(normalised, "distinct")
    shingles: set[int] = set()
    pairs: list[DocstringPair] = []
    packages = set()
    every = list(files)
    with counter("read", total=len(every)) as advance:
        for package, path in every:
            advance(1)
            packages.add(package)
            counts.files += 1
            found = _docstrings(path)
            counts.unreadable += found is None
            counts.docstrings += len(found or ())
            suitable = [pair for text in found or () if (pair := split_docstring(text))]
            counts.unsuitable += len(found or ()) - len(suitable)
            violations = rule.judge([(description, "") for description, _ in suitable], lambda _: None)
            for (description, summary), violation in zip(suitable, violations, strict=True):
                if violation:
                    counts.duplicates += 1
                elif not add_shingles(description, shingles):
                    counts.near_duplicates += 1
                else:
                    pairs.append(DocstringPair(description, summary, package))
    counts.packages = len(packages)
    return pairs


def _docstrings(path: Path) -> list[str] | None:
    """Return the docstrings of modules, classes and functions; None for a file that cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in strings
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
    return [text for text in texts if text]


def split_docstring(text: str) -> tuple[str, str] | None:
    """Return description and first line; None if one is missing, too short, too long or not plain text."""
    first, _, rest = text.strip().partition("\n\n")
    section = _SECTION.search(rest)
    description, summary = (
        " ".join(part.split()) for part in (rest[: section.start() if section else None], first)
    )
    if "\n" in first or _SECTION.search(first) or not (description.isprintable() and summary.isprintable()):
        return None
    if len(summary.split()) not in _SUMMARY_WORDS or len(description.split()) not in _DESCRIPTION_WORDS:
        return None
    return description, summary


def add_shingles(text: str, seen: set[int]) -> bool:
    """Add the word 5-grams of a text; return False if at least half of them were there before."""
    words = [normalised(word) for word in text.split()]
    mine = {hash(tuple(words[i : i + _SHINGLE])) for i in range(len(words) - _SHINGLE + 1)}
    if len(mine & seen) >= _SEEN_SHINGLES * len(mine):
        return False
    seen |= mine
    return True


class _OfPackage(Protocol):
    """A pair of a package."""

    @property
    def package(self) -> str: ...


_Pair = TypeVar("_Pair", bound=_OfPackage)


def split_by_package(
    pairs: Sequence[_Pair], *, seed: int, count: int | None = None, what: str = "suitable docstrings"
) -> dict[str, list[_Pair]]:
    """Return shuffled training, validation and test pairs; all pairs of a package are in the same part.

    Packages are taken in random order: one that fits into a tenth of the pairs goes to the test part, then to
    the validation part, and all others to the training part.
    """
    random = Random(seed)
    chosen = random.sample(pairs, min(count or len(pairs), len(pairs)))
    sizes = Counter(pair.package for pair in chosen)
    packages = sorted(sizes)
    random.shuffle(packages)
    left = {"test": _SHARE * len(chosen), "valid": _SHARE * len(chosen)}
    part_of = {}
    for package in packages:
        part = next((part for part, room in left.items() if sizes[package] <= room), "train")
        part_of[package] = part
        if part in left:
            left[part] -= sizes[package]
    parts: dict[str, list[_Pair]] = {part: [] for part in PARTS}
    for pair in chosen:
        parts[part_of[pair.package]].append(pair)
    if not all(parts.values()):
        raise SeqloomError(
            f"The installed packages have {len(pairs)} {what} in {len(sizes)} groups, "
            "too few for training, validation and test data.",
            "install more packages, or increase --count",
        )
    return parts
