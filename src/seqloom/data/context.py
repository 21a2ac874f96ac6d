"""Context for dialogue and documents: previous sources, put before each source (`data.context`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError
from seqloom.text.features import is_features
from seqloom.types import Example

SEPARATOR = "<sep>"


def with_context(examples: Iterable[Example], context: int, report: DataReport) -> Iterator[Example]:
    """Put up to `context` previous sources of the same conversation before each source.

    A conversation ends at an empty line, an empty source, and a record that cannot be read. Such records are
    counted in the total of the report, and are not among the examples or have no source.
    """
    if not context:
        yield from examples
        return
    previous: deque[str] = deque(maxlen=context + 1)  # with the source itself
    last = report.total
    for example in examples:
        _check(example)
        if report.total != last + 1 or not example.source:
            previous.clear()
        last = report.total
        if example.source:
            previous.append(example.source)
            yield replace(example, source=f" {SEPARATOR} ".join(previous))
        else:
            yield example


def _check(example: Example) -> None:
    if example.heads is not None or is_features(example.source):
        kind = "feature files" if example.heads is None else "sentences with dependency trees"
        raise SeqloomError(f"data.context cannot be used for {kind}.", "remove data.context")
