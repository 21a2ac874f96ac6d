"""Several processes at once on one run, and on one cache: one trains, and nobody meets half-written files."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from seqloom.data.corpus import Corpus
from seqloom.data.store import TokenStore
from seqloom.decode.select import load_translator
from seqloom.errors import SeqloomError
from seqloom.locks import locked
from seqloom.run.config import Config, compose
from seqloom.run.directory import Run
from seqloom.run.train import continue_run, create, create_and_train
from support.configs import TINY

FORK = multiprocessing.get_context("fork")  # starts at once: everything is imported
SETTINGS: dict[str, Any] = {**TINY, "data.valid_max": 5, "train.checkpoint_every": 10}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Config]:
    """A configuration of a run that takes that many steps, whose data is in no cache."""
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pairs.tsv").write_text("".join(f"{n} {n + 1}\t{n + 1} {n}\n" for n in range(500)))
    values = {**SETTINGS, "data.train": str(tmp_path / "pairs.tsv")}
    return lambda steps: compose(values={**values, "train.max_steps": steps})


class Child:
    """A process that calls a function, and sends None or the error message."""

    def __init__(self, act: Callable[[], object], start: Any) -> None:
        self._receiver, sender = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=self._run, args=(act, start, sender))
        self.process.start()
        sender.close()

    @staticmethod
    def _run(act: Callable[[], object], start: Any, sender: Connection) -> None:
        start.wait()
        try:
            act()
            sender.send(None)
        except SeqloomError as error:
            sender.send(str(error))

    def result(self) -> str | None:
        """Return the error message, or None; fail if the process ended in another way."""
        assert self._receiver.poll(60), "the process did not end"
        message: str | None = self._receiver.recv()
        self.process.join(60)
        return message


@contextmanager
def children(*acts: Callable[[], object]) -> Iterator[list[Child]]:
    """Call the functions at the same time, each in its own process."""
    start = FORK.Barrier(len(acts))
    started = [Child(act, start) for act in acts]
    try:
        yield started
    finally:
        for child in started:
            child.process.kill()
            child.process.join()


def _one_wins(*acts: Callable[[], object]) -> None:
    """Call two functions at the same time: one of them succeeds, and the other one names its process."""
    with children(*acts) as both:
        messages = [child.result() for child in both]
        assert sorted(message is None for message in messages) == [False, True], messages
        winner = both[messages.index(None)].process.pid
        loser = next(message for message in messages if message)
        assert re.search(rf"is being (trained|written) by process {winner} on ", loser), loser


def test_two_processes_train_to_one_folder(config: Callable[..., Config], tmp_path: Path) -> None:
    act = lambda: create_and_train(config(20), tmp_path / "run", quiet=True)  # noqa: E731
    _one_wins(act, act)
    assert Run.open(tmp_path / "run").checkpoints().steps()[-1] == 20
    assert not list(tmp_path.rglob("*.lock"))


def test_two_processes_resume_one_run(config: Callable[..., Config], tmp_path: Path) -> None:
    create(config(20), tmp_path / "run", quiet=True)
    (tmp_path / "link").symlink_to("run")
    runs = [Run.open(tmp_path / name) for name in ("run", "link")]
    _one_wins(*(lambda run=run: continue_run(run, quiet=True) for run in runs))
    metrics = [line["step"] for line in Run.open(tmp_path / "run").metrics() if line["kind"] == "valid"]
    assert metrics == sorted(set(metrics)) and metrics[-1] == 20


def test_a_new_run_cannot_replace_one_that_is_trained(config: Callable[..., Config], tmp_path: Path) -> None:
    run = create(config(10), tmp_path / "run", quiet=True)
    with locked(run.lock_file, "this test"):
        with pytest.raises(SeqloomError, match=f"run is being trained by process {os.getpid()} on "):
            create(config(10), tmp_path / "run", quiet=True)
        with pytest.raises(SeqloomError, match="is being trained"):
            continue_run(run, quiet=True)
    assert continue_run(run, quiet=True).step == 10


def test_a_killed_process_leaves_no_lock(config: Callable[..., Config], tmp_path: Path) -> None:
    run = tmp_path / "run"
    with children(lambda: create_and_train(config(100_000), run, quiet=True)) as (child,):
        while not (run / "checkpoints" / "step-10").exists():
            assert child.process.is_alive()
            time.sleep(0.01)
        os.kill(child.process.pid or 0, signal.SIGKILL)
        child.process.join()
    assert Run.open(run).lock_file.exists()
    (run / "config.yaml").write_text(config(10).to_yaml())
    assert continue_run(Run.open(run), quiet=True).finished
    assert not Run.open(run).lock_file.exists()


def test_four_runs_start_on_a_cold_cache(config: Callable[..., Config], tmp_path: Path) -> None:
    acts = [lambda n=n: create_and_train(config(2), tmp_path / f"run{n}", quiet=True) for n in range(4)]
    with children(*acts) as four:
        assert [child.result() for child in four] == [None] * 4
    stores = list((tmp_path / "cache" / "stores").iterdir())
    assert len(stores) == 2 and all(map(TokenStore.is_sound, stores))  # training and validation, written once


def test_four_translators_start_on_a_cold_cache(
    config: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    create_and_train(config(2), tmp_path / "run", quiet=True)
    act = lambda: load_translator(tmp_path / "run", "ctranslate2")  # noqa: E731
    with children(act, act, act, act) as four:
        assert [child.result() for child in four] == [None] * 4
    assert len(os.listdir(tmp_path / "cache" / "ctranslate2")) == 1


def test_what_killed_processes_left_in_the_cache_is_removed(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    stores = tmp_path / "cache" / "stores"
    gone = FORK.Process(target=lambda: None)
    gone.start()
    gone.join()
    for name in (f"a.partial-{gone.pid}", f"b.partial-{os.getpid()}", ".c.tmp", ".d.tmp"):
        (stores / name).mkdir(parents=True)
    (stores / ".c.lock").write_text("process 1 on elsewhere")
    with locked(stores / ".d.lock", "this test"):
        Corpus(config(2).data, config(2).text).prepare()
        left = {name for name in os.listdir(stores) if not TokenStore.is_sound(stores / name)}
    assert left == {f"b.partial-{os.getpid()}", ".d.tmp", ".d.lock"}
    (stores / f"a.partial-{gone.pid}").mkdir()
    Corpus(config(2).data, config(2).text).prepare()  # writes no store: it is in the cache
    assert not (stores / f"a.partial-{gone.pid}").exists()


def test_an_unwritable_folder_is_reported_before_any_work(
    config: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is in the way: root may write into any folder."""
    monkeypatch.setattr(Corpus, "prepare", lambda *_: pytest.fail("the data was read first"))
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "run", tmp_path / "file" / "deep" / "run"):
        with pytest.raises(SeqloomError, match="cannot be written"):
            create(config(2), out)


def test_train_keeps_a_link(config: Callable[..., Config], tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk/new")
    create_and_train(config(2), tmp_path / "link", quiet=True)
    assert (tmp_path / "link").is_symlink()
    assert os.listdir(tmp_path / "disk") == ["new"]
    assert Run.open(tmp_path / "link").checkpoints().steps() == [2]
