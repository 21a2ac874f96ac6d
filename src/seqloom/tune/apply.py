"""Writing of tuned search options into a run, with a record of what was there before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from seqloom.files import read_sealed, sealed, write_json
from seqloom.locks import locked
from seqloom.outputs import write_errors
from seqloom.run.directory import Run
from seqloom.run.extend import change_search
from seqloom.tune.search import Setting, setting_of

RECORD = "search-tuning.json"


@contextmanager
def only_user(run: Run) -> Iterator[None]:
    """Keep other processes from training the run; raise if one does, or if the run cannot be written."""
    with write_errors(run.folder), locked(run.lock_file, f"The run {run.folder} is being trained"):
        yield


def apply_setting(run: Run, chosen: Setting, measured: Mapping[str, Any]) -> None:
    """Write the search options into the run, and the old ones with the measurements into its record."""
    entry = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "before": setting_of(run.config().search).options(),
        "after": chosen.options(),
        **measured,
    }
    write_json(run.folder / RECORD, sealed({"history": [*history(run), entry]}))
    change_search(run, chosen.options())


def history(run: Run) -> list[dict[str, Any]]:
    """Return the record of all changes to the search options of the run, oldest first."""
    file = run.folder / RECORD
    return list(read_sealed(file)["history"]) if file.is_file() else []
