"""What cleaning did to a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from seqloom.cleaning.reading import Dropped
from seqloom.cleaning.rule import CleaningRule

EXAMPLES = 3  # dropped lines of each rule in the result
_MANY = 0.1  # share of the lines: a rule that drops more may not suit the data


@dataclass
class RuleResult:
    """Lines that a rule dropped."""

    limit: str = ""
    dropped: int = 0
    examples: list[Dropped] = field(default_factory=list)

    def add(self, line: Dropped) -> None:
        self.dropped += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(line)


@dataclass
class CleaningResult:
    """Numbers of lines, and the result of every rule; malformed, skipped and empty lines are always dropped."""

    lines: int
    rules: dict[str, RuleResult]
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, lines: int, rules: Mapping[str, CleaningRule]) -> Self:
        """Return the result before anything is dropped."""
        always = {name: RuleResult() for name in ("malformed", "skipped", "empty")}
        return cls(lines, {**always, **{name: RuleResult(rule.limit) for name, rule in rules.items()}})

    def add(self, line: Dropped) -> None:
        """Count a dropped line."""
        self.rules[line.rule].add(line)

    @property
    def dropped(self) -> int:
        return sum(rule.dropped for rule in self.rules.values())

    @property
    def kept(self) -> int:
        return self.lines - self.dropped

    def finish(self, rules: Mapping[str, CleaningRule]) -> None:
        """Add the reasons to look at the report before the result is used."""
        for name, rule in rules.items():
            self.warnings += [f"The rule {name}: {warning}" for warning in rule.warnings]
            if self.rules[name].dropped > _MANY * self.lines:
                share = self.rules[name].dropped / self.lines
                self.warnings.append(
                    f"The rule {name} drops {share:.0%} of the lines. If the report shows good lines, change "
                    f"the limit or add --without {name}."
                )

    def as_dict(self) -> dict[str, Any]:
        return {
            "lines": self.lines,
            "kept": self.kept,
            "dropped": self.dropped,
            "rules": {
                name: {
                    "limit": rule.limit,
                    "dropped": rule.dropped,
                    "examples": [_as_dict(line) for line in rule.examples],
                }
                for name, rule in self.rules.items()
            },
            "warnings": self.warnings,
        }


def _as_dict(dropped: Dropped) -> dict[str, Any]:
    example, _, (reason, score) = dropped
    place = {"file": example.file, "line": example.line, "score": score, "reason": reason}
    return {**place, "source": example.source, "target": example.target}
