"""The main command: version, help, errors and exit codes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import seqloom
from seqloom.cli import main
from seqloom.errors import SeqloomError
from support.commands import Command, run_python, start_process


def test_version(command: Command) -> None:
    assert command("--version") == (0, f"seqloom {seqloom.__version__}\n", "")


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys; sys.argv = ['seqloom', '--help']\n"
        "from seqloom.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    assert run_python(code).splitlines()[-1] == "False"


def test_no_command_prints_the_help(command: Command) -> None:
    code, out, err = command()
    assert (code, out) == (2, "")
    assert "translate" in err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("trian", "'train'"),
        ("data chek", "'check'"),
        ("train --outt x", "--outt"),
        ("info", "RUN"),
        ("info a b", "b"),
        ("info a --plot", "--plot"),
        ("fill a b --top 0", "--top"),
    ],
)
def test_wrong_usage_is_an_error_with_a_hint(command: Command, words: str, named: str) -> None:
    code, out, err = command(*words.split())
    assert (code, out) == (2, "")
    assert named in err
    assert err.startswith("error: ") and "\nhint:  " in err


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def app() -> None:
        raise error

    monkeypatch.setattr(main, "app", app)
    with pytest.raises(SystemExit) as ended:
        main.main()
    return int(ended.value.code or 0)


def test_an_error_is_printed_as_a_message_and_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(monkeypatch, SeqloomError("It broke.", "fix it")) == 2
    assert capsys.readouterr() == ("", "error: It broke.\nhint:  fix it\n")
    assert raising(monkeypatch, SeqloomError("It broke.")) == 2
    assert capsys.readouterr().err == "error: It broke.\n"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(13, "Permission denied", "secret/run"), "error: secret/run: Permission denied.\n"),
        (OSError(36, "File name too long", "x" * 5000), f"error: {'x' * 200}: File name too long.\n"),
        (OSError("the device is gone"), "error: the device is gone.\n"),
    ],
)
def test_an_operating_system_error_is_printed_as_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError, told: str
) -> None:
    assert raising(monkeypatch, error) == 2
    hint = "hint:  check the path, its permissions and the free disk space\n"
    assert capsys.readouterr() == ("", told + hint)


def test_an_interrupt_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(monkeypatch, KeyboardInterrupt()) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_closed_pipe_is_not_a_traceback() -> None:
    with start_process("data", "make", "copy", "--count", 50_000) as writer:
        assert writer.stdout is not None and writer.stderr is not None
        writer.stdout.readline()
        writer.stdout.close()
        assert writer.stderr.read() == ""
        writer.wait(timeout=60)


HUGE = "9" * 20


@pytest.mark.parametrize(
    "words",
    [
        ("translate", "pairs", "text.txt", "--beam", HUGE),
        ("translate", "pairs", "text.txt", "--nbest", HUGE),
        ("translate", "pairs", "text.txt", "--threads", "100000"),
        ("translate", "pairs", "text.txt", "--processes", "100000"),
        ("translate", "pairs", "text.txt", "--set", "search.max_length_factor=1e300"),
        ("translate", "pairs", "text.txt", "--samples", HUGE),
        ("translate", "pairs", "text.txt", "--sample", "--top-k", HUGE),
        ("translate", "pairs", "text.txt", "--sample", "--seed", HUGE),
        ("translate", "pairs", "text.txt", "--sample", "--temperature", "1e300"),
        ("evaluate", "pairs", "pairs.tsv", "--beam", HUGE),
        ("evaluate", "pairs", "pairs.tsv", "--threads", HUGE),
        ("evaluate", "pairs", "pairs.tsv", "--processes", HUGE),
        ("rerank", "pairs", "text.txt", "--nbest", HUGE),
        ("generate", "lm", "a man", "--count", HUGE),
        ("generate", "lm", "a man", "--length", HUGE),
        ("fill", "mlm", "a [MASK]", "--top", HUGE),
        ("score", "pairs", "pairs.tsv", "--worst", HUGE),
        ("shortlist", "pairs", "--threads", HUGE),
        ("shortlist", "pairs", "--pairs", HUGE),
        ("shortlist", "pairs", "--translations", HUGE),
        ("shortlist", "pairs", "--frequent", HUGE),
        ("align", "pairs.tsv", "--threads", HUGE),
        ("inspect", "search", "pairs", "a man", "--beam", HUGE),
        ("inspect", "search", "pairs", "--errors", "pairs.tsv", "--limit", HUGE),
        ("inspect", "gradients", "pairs", "--max-distance", HUGE),
        ("inspect", "gradients", "pairs", "--batches", HUGE),
        ("data", "show", "pairs.tsv", "--count", HUGE),
        ("data", "show", "pairs.tsv", "--seed", HUGE),
        ("train", "pairs.tsv", "--out", "new", "--processes", HUGE),
        ("train", "pairs.tsv", "--out", "new", "--set", "train.threads=100000"),
    ],
    ids=" ".join,
)
def test_an_absurd_number_is_used_or_refused(
    words: tuple[str, ...], runs: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lm", "mlm", "pairs"):
        shutil.copytree(runs / name, tmp_path / "runs" / name, symlinks=True)
    for name in ("pairs.tsv", "text.txt"):
        shutil.copy(runs / name, tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")
    done = command(*words)
    assert done.code in (0, 2), done.err
    assert "Traceback" not in done.err
    assert not Path("new").exists()
