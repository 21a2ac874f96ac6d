"""Generation of damaged files: a test supplies a valid file and its reader."""

from __future__ import annotations

import json
import re
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from seqloom.errors import SeqloomError
from support.runs import SharedRuns

FEW, MANY = 60, 1000  # cases per test in the fast and in the slow suite
SLOWEST = 20.0  # CPU seconds per case; an endless case hits the timeout of the test
MEMORY = 3 << 30  # bytes of address space that reading may allocate

# Content that breaks careless readers, inserted anywhere in a file.
TOKENS = [
    *(b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"PK\x03\x04"),
    *(b"\r", b"\r\n", b"\n\n", b"\t", b'"', b"'", b"\\", b"\x1b[2J", "\u2028\x85\u0130²٣".encode()),
    *(b"NaN", b"Infinity", b"-1", b"0", b"1e999", b"null", b"true", b"~", b"2001-99-99", b"0x_", b"1:99:99"),
    *(b"9" * 30, b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"(" * 3000, b"- " * 3000, b"x" * 200_000),
    *(b"!!python/name:os.system ", b"!!int ", b"&a ", b"*a", b"<<: ", b"${HOME}", b"%s{0}", b"../", b"\\ud800"),
]
NUMBER = re.compile(rb"-?\d+(\.\d+)?")


def damaged(*valid: bytes) -> st.SearchStrategy[bytes]:
    """Return a strategy for valid files with up to four faults, or random bytes."""
    faulty = st.tuples(st.sampled_from(valid), st.lists(_FAULTS, max_size=4)).map(_apply)
    return st.one_of(faulty, faulty, faulty, faulty, st.binary(max_size=300))


Fault = Callable[[bytes], bytes]


def _apply(case: tuple[bytes, list[Fault]]) -> bytes:
    content, faults = case
    for fault in faults:
        content = fault(content)
    return content


def _place(share: float, content: bytes) -> int:
    return int(share * len(content))


def _cut(a: float, b: float) -> Fault:
    return lambda c: c[: _place(min(a, b), c)] + c[_place(max(a, b), c) :]


def _repeat(a: float, b: float) -> Fault:
    return lambda c: c[: _place(max(a, b), c)] + c[_place(min(a, b), c) :]


def _insert(a: float, token: bytes) -> Fault:
    return lambda c: c[: _place(a, c)] + token + c[_place(a, c) :]


def _flip(a: float, bits: int) -> Fault:
    def fault(content: bytes) -> bytes:
        changed = bytearray(content or b"\0")
        changed[min(_place(a, content), len(changed) - 1)] ^= bits
        return bytes(changed)

    return fault


def _renumber(a: float, token: bytes) -> Fault:
    """Replace the first number after a position by another token."""
    return lambda c: c[: _place(a, c)] + NUMBER.sub(lambda _: token, c[_place(a, c) :], count=1)


def _truncate(a: float) -> Fault:
    return lambda c: c[: _place(a, c)]


_SHARE = st.floats(0, 1, allow_nan=False)
_TOKEN = st.sampled_from(TOKENS)
_FAULTS = st.one_of(
    st.builds(_cut, _SHARE, _SHARE),
    st.builds(_repeat, _SHARE, _SHARE),
    st.builds(_insert, _SHARE, _TOKEN | st.binary(max_size=8)),
    st.builds(_flip, _SHARE, st.integers(1, 255)),
    st.builds(_renumber, _SHARE, _TOKEN),
    st.builds(_truncate, _SHARE),
)

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**6, 2**31, 2**63, 10**12, 10**30, -(2**63), 10**400]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["", "0", "auto", "../../x", "/etc/passwd", "\ud800", "\x1b[2J", "x" * 10_000]),
)
_NAMES = st.text(max_size=4)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3)
)


@st.composite
def reshaped(draw: st.DrawFn, valid: Any) -> Any:
    """Return a JSON value with some of its parts changed, removed, renamed or added."""
    value = json.loads(json.dumps(valid))
    for _ in range(draw(st.integers(1, 3))):
        value = _reshape(draw, value)
    return value


def _reshape(draw: st.DrawFn, value: Any) -> Any:
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 7)) == 0:
        return draw(_VALUES)
    if isinstance(value, list):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], _reshape(draw, value[place]), *value[place + 1 :]]
    key = draw(st.sampled_from(sorted(value)))
    action = draw(st.sampled_from(["change", "change", "change", "remove", "rename", "add"]))
    rest = {name: inner for name, inner in value.items() if name != key}
    if action == "remove":
        return rest
    if action == "rename":
        return {**rest, draw(_NAMES): value[key]}
    if action == "add":
        return {**value, draw(_NAMES): draw(_VALUES)}
    return {**rest, key: _reshape(draw, value[key])}


class Fuzz(Protocol):
    """Runner of `check`, which must succeed or raise a SeqloomError; `cost` divides the number of cases."""

    def __call__(
        self, cases: st.SearchStrategy[Any], check: Callable[[Any], object], cost: int = 1
    ) -> None: ...


_IN_FULL = pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])


@pytest.fixture(params=[FEW, _IN_FULL], ids=["few", "many"])
def fuzz(request: pytest.FixtureRequest, little_memory: None) -> Fuzz:
    """Return a runner for many cases; those of the fast suite are deterministic."""

    def run(cases: st.SearchStrategy[Any], check: Callable[[Any], object], cost: int = 1) -> None:
        @settings(
            max_examples=request.param // cost,
            deadline=None,
            phases=set(Phase) - ({Phase.shrink} if cost > 1 else set()),
            derandomize=request.param == FEW,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases)
        def one(case: Any) -> None:
            began = time.process_time()
            with suppress(SeqloomError):
                check(case)
            assert time.process_time() - began < SLOWEST

        one()

    return run


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Limit memory, so that a file that claims far too much raises MemoryError and fails the test."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    before = resource.getrlimit(resource.RLIMIT_AS)
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(scope="session")
def damage() -> Callable[..., st.SearchStrategy[bytes]]:
    return damaged


@pytest.fixture(scope="session")
def reshape() -> Callable[[Any], st.SearchStrategy[Any]]:
    return reshaped


@pytest.fixture(scope="session")
def runs(shared_runs: SharedRuns) -> Path:
    """Return the folder of the shared runs: one per kind of files on disk."""
    kinds = ("transformer", "mlm", "word-mlm", "ngram", "phrase", "hmm-lm", "hmm", "hmm-classifier")
    return shared_runs.build(*kinds)
