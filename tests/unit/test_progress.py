"""Progress where there is no terminal: nothing for short work, a line now and then for long work."""

from __future__ import annotations

import pytest

from seqloom.progress import counter, duration


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
