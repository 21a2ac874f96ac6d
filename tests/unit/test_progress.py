"""Progress: a bar on a terminal; elsewhere nothing for short work, and a few lines for long work."""

from __future__ import annotations

import pytest

from seqloom.progress import ProgressBar, counter, duration, megabytes, percentage, stderr_console


def test_long_work_prints_how_much_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 50.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with counter("translated", total=1000) as advance:
        for _ in range(400):
            now += 0.125  # exact in binary
            advance(1)
    assert capsys.readouterr().err.splitlines() == [
        "translated: 80 of 1,000, about 2 min left",
        "translated: 240 of 1,000, about 2 min left",
    ]


def test_short_work_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with counter("translated") as advance:
        advance(10)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with ProgressBar("runs/[b] {x}", 4, keep=True) as bar:
        assert bar.is_live
        bar.advance(1)
        bar.update(3, seconds_left=100, note="loss [2]")
        stderr_console().print("a line [b]above[/b] the bar")
    assert not bar.is_live
    printed = capsys.readouterr().err
    assert "runs/[b] {x}" in printed and "3 of 4, about 2 min left: loss [2]" in printed
    assert "a line [b]above[/b] the bar" in printed


def test_amounts() -> None:
    assert (percentage(0.25, 1.0), percentage(1, 3)) == ("25 %", "33 %")
    assert (megabytes(1_250_000, 3e6), megabytes(5e5, None)) == ("1.2 of 3.0 MB", "0.5 MB")


@pytest.mark.parametrize(
    "seconds, words",
    [
        (0.4, "0 s"),
        (45, "45 s"),
        (89.4, "89 s"),
        (90, "2 min"),
        (720, "12 min"),
        (5400, "1 h 30"),
        (11_100, "3 h 05"),
        (float("inf"), "?"),
        (float("nan"), "?"),
    ],
)
def test_durations_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words
