"""Cleaning of a corpus: a survey of what is usual in it, then every rule in turn, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from seqloom.cleaning.build import rule_builders
from seqloom.cleaning.options import CleaningOptions
from seqloom.cleaning.reading import Dropped, Survey, check_cleanable, pair_of, parts, read_lines
from seqloom.cleaning.result import CleaningResult
from seqloom.cleaning.rule import REPORTED, CleaningRule, Progress
from seqloom.cleaning.writing import PairFiles, cleaning_files
from seqloom.data.config import DataConfig
from seqloom.errors import SeqloomError
from seqloom.progress import ProgressBar, counter, percentage
from seqloom.types import Example

PART = 200_000  # pairs that are judged together: enough to learn translations from, and a bound of the memory


def clean_corpus(
    config: DataConfig, options: CleaningOptions, files: PairFiles, report: Path
) -> CleaningResult:
    """Write the pairs that pass all rules, and a report of all other lines.

    The corpus is read twice. Memory holds the hashes of all pairs (8 bytes for each rule against duplicates)
    and at most PART pairs with their word alignment.
    """
    check_cleanable(config)
    builders = rule_builders(options)
    survey = _survey(config, files)
    rules = {name: build(survey.sample) for name, build in builders.items()}
    result = CleaningResult.of(survey.lines, rules)
    work = survey.pairs * sum(rule.passes for rule in rules.values())
    with cleaning_files(files, report) as written, ProgressBar("clean", work, describe=percentage) as bar:
        for part in parts(read_lines(config), survey.pairs, PART):
            for line in _judged(part, rules, bar.advance):
                if isinstance(line, Dropped):
                    written.drop(line)
                    result.add(line)
                else:
                    written.keep(line)
    result.finish(rules)
    return result


def _survey(config: DataConfig, files: PairFiles) -> Survey:
    """Return what one pass over the corpus shows; check that every pair can be written."""
    survey = Survey()
    with counter("read") as advance:
        for line in read_lines(config):
            if isinstance(line, Example):
                files.check(line)
            survey.add(line)
            if survey.lines % REPORTED == 0:
                advance(REPORTED)
    if not survey.pairs:
        raise SeqloomError(
            f"Nothing to clean: none of {survey.lines:,} lines has text on both sides.",
            "check the file's format and columns (--source-column, --target-column)",
        )
    return survey


def _judged(
    part: Iterable[Example | Dropped], rules: Mapping[str, CleaningRule], on_progress: Progress
) -> list[Example | Dropped]:
    """Return the lines in their order; a pair is dropped by the first rule that objects."""
    lines = list(part)
    left = {place: line for place, line in enumerate(lines) if isinstance(line, Example)}
    count = len(left)
    for name, rule in rules.items():
        findings = rule.judge([pair_of(example) for example in left.values()], on_progress)
        on_progress(rule.passes * (count - len(left)))  # for the pairs that earlier rules have dropped
        for (place, example), finding in zip(list(left.items()), findings, strict=True):
            if finding is not None:
                lines[place] = Dropped(example, name, finding)
                del left[place]
    return lines
