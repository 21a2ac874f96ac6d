"""Files of contrasts: tab-separated, with a header that names the columns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from seqloom.data.lines import lines
from seqloom.errors import SeqloomError
from seqloom.evaluate.contrast import Contrast
from seqloom.outputs import write_output

COLUMNS = ("source", "right", "wrong", "kind", "distance")
REQUIRED = ("right", "wrong")
_HINT = (
    f"the first line names the columns, separated by tabs: {' '.join(COLUMNS)}; right and wrong are required"
)


def read_contrasts(path: str) -> list[Contrast]:
    """Return the contrasts of a file."""
    rows = lines(path)
    header = next(rows, "").split("\t")
    missing = [name for name in REQUIRED if name not in header]
    unknown = [name for name in header if name not in COLUMNS]
    if missing or unknown or len(set(header)) < len(header):
        reason = f"has no column {missing[0]!r}" if missing else f"has the header {' '.join(header)[:60]!r}"
        raise SeqloomError(f"{path} is not a file of contrasts: it {reason}.", _HINT)
    found = [_contrast(path, number, header, row.split("\t")) for number, row in enumerate(rows, 2)]
    if not found:
        raise SeqloomError(f"{path} contains no contrasts.", _HINT)
    return found


def _contrast(path: str, number: int, header: list[str], cells: list[str]) -> Contrast:
    where = f"{path}, line {number}"
    if len(cells) != len(header):
        raise SeqloomError(f"{where} has {len(cells)} columns, but the header has {len(header)}.", _HINT)
    values = dict(zip(header, cells, strict=True))
    for name in REQUIRED:
        if not values[name].strip():
            raise SeqloomError(f"{where}: the column {name} is empty.", "fill it, or remove the line")
    if values["right"] == values["wrong"]:
        raise SeqloomError(f"{where}: the right and the wrong text are the same.", "remove the line")
    distance = values.get("distance", "").strip()
    if distance and not (distance.isascii() and distance.isdigit()):
        raise SeqloomError(f"{where}: the distance {distance[:20]!r} is not a number.", "use 0, 1, 2, ...")
    return Contrast(
        right=values["right"],
        wrong=values["wrong"],
        source=values.get("source", ""),
        kind=values.get("kind", ""),
        distance=int(distance) if distance else None,
    )


def write_contrasts(path: Path, contrasts: Iterable[Contrast]) -> None:
    """Write a file of contrasts."""
    rows = (
        (one.source, one.right, one.wrong, one.kind, "" if one.distance is None else str(one.distance))
        for one in contrasts
    )
    write_output(path, "".join("\t".join(row) + "\n" for row in (COLUMNS, *rows)))
