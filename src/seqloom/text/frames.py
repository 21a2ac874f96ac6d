"""Sources that are not text: sequences of feature vectors in .npy or .npz files, or sound in .wav files.

A `FrameReader` stands where the tokenizer of the source stands: a line is the path of a file, and what it is
encoded to is an array of frames.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import SeqloomError
from seqloom.files import is_special, read_sealed, sealed, write_json
from seqloom.limits import ARRAY_BYTES
from seqloom.settings import Settings
from seqloom.text.config import Center
from seqloom.text.features import SUFFIXES, feature_file
from seqloom.text.sound import SHIFT, Frames, UnreadableFrames, cepstra, mfcc, no_file, read_wav

__all__ = ["FrameReader", "Frames", "UnreadableFrames", "mfcc", "read_features"]


class FrameSettings(Settings):
    """All that a FrameReader has learned."""

    kind: Literal["frames"] = "frames"
    center: Center
    stack: int
    rate: int | None  # samples per second of the sound; None = the features come from arrays
    mean: tuple[float, ...]  # of every feature, over the training data
    deviation: tuple[float, ...]  # likewise, around what is taken off


class FrameReader:
    """Frames of a file, (S, F) float32: centred, divided by the deviation of the training data, stacked."""

    def __init__(self, settings: FrameSettings) -> None:
        self.settings = settings
        self.notes = list[str]()
        self._mean = np.asarray(settings.mean, np.float32)
        self._deviation = np.asarray(settings.deviation, np.float32)

    @classmethod
    def train(cls, lines: Iterable[str], *, center: Center, stack: int) -> FrameReader:
        """A reader for such files. Those that cannot be read, or differ from the first, have no say."""
        sums, first, fault = _Sums(), None, None
        for line in lines:
            try:
                found = read_features(line)
            except UnreadableFrames as error:
                fault = fault or error
                continue
            if not len(found.frames):
                continue
            first = first or found
            if found.alike(first):
                sums.add(found.frames - found.frames.mean(axis=0) if center == "sequence" else found.frames)
        if first is None:
            raise fault or SeqloomError("There is no frame in any source.", "check the files of features")
        mean, deviation = sums.moments()
        return cls(
            FrameSettings(
                center=center,
                stack=stack,
                rate=first.rate,
                mean=tuple(mean.tolist()),
                deviation=tuple(deviation.tolist()),
            )
        )

    @property
    def size(self) -> int:
        """F: numbers in a frame as the model sees it."""
        return len(self.settings.mean) * self.settings.stack

    @property
    def vocabulary(self) -> object:
        """Itself: no tokenizer has such ids."""
        return self

    @property
    def fingerprint(self) -> str:
        """A hash of all that the frames of a file depend on."""
        return hashlib.sha256(self.settings.model_dump_json().encode()).hexdigest()

    def encode(self, line: str) -> Frames:
        """The frames of the file of that name, (S, F); none for an empty line."""
        if not line.strip():
            return np.empty((0, self.size), np.float32)
        found = read_features(line.strip())
        self._check(line.strip(), found)
        if not len(found.frames):
            return np.empty((0, self.size), np.float32)
        center = found.frames.mean(axis=0) if self.settings.center == "sequence" else self._mean
        return _stacked((found.frames - center) / self._deviation, self.settings.stack)

    def _check(self, line: str, found: Features) -> None:
        """Raises if the file differs from those that the reader learned from."""
        size, rate = len(self.settings.mean), self.settings.rate
        if found.frames.shape[1] != size:
            raise UnreadableFrames(
                line,
                f"a frame of it has {found.frames.shape[1]} numbers, not {size} as in the training data",
                "compute the features as for training",
            )
        if found.rate != rate and found.rate and rate:
            raise UnreadableFrames(
                line,
                f"it has {found.rate} samples per second, not {rate} as the training data",
                f"e.g. ffmpeg -i FILE -ar {rate} FILE.wav",
            )

    def pieces(self, count: int) -> list[str]:
        """When each of so many frames begins, e.g. 0.34s; of arrays its number from 0, for they do not tell."""
        stack = self.settings.stack
        if self.settings.rate is None:
            return [str(i * stack) for i in range(count)]
        return [f"{i * stack * SHIFT:.2f}s" for i in range(count)]

    def save(self, folder: str | Path, side: str) -> None:
        """Write SIDE.json."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_json(Path(folder) / f"{side}.json", sealed(self.settings.model_dump()))

    @classmethod
    def load(cls, folder: str | Path, side: str) -> FrameReader:
        """Load the reader that `save` wrote."""
        path = Path(folder) / f"{side}.json"
        return cls(FrameSettings.checked(read_sealed(path), "tokenizer", where=str(path)))


class Features(NamedTuple):
    """What a file holds, as it is."""

    frames: Frames
    rate: int | None = None  # samples per second, of sound

    def alike(self, other: Features) -> bool:
        """Whether one reader can read both."""
        return self.frames.shape[1] == other.frames.shape[1] and self.rate == other.rate


class _Sums:
    """Sums over frames, in double precision."""

    def __init__(self) -> None:
        self._count, self._sum, self._squares = 0, np.zeros(1), np.zeros(1)

    def add(self, frames: Frames) -> None:
        wide = frames.astype(np.float64)
        self._count += len(wide)
        self._sum, self._squares = self._sum + wide.sum(axis=0), self._squares + (wide**2).sum(axis=0)

    def moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of every feature; one that never changes has the deviation 1."""
        mean = self._sum / self._count
        deviation = np.sqrt(np.maximum(self._squares / self._count - mean**2, 0.0))
        return mean, np.where(deviation > 1e-5 * np.maximum(1.0, np.abs(mean)), deviation, 1.0)


def _stacked(frames: NDArray[np.floating[Any]], stack: int) -> Frames:
    """(⌈S / k⌉, k F): every k frames side by side; the last one is repeated where it takes more to be k."""
    missing = -len(frames) % stack
    whole = np.pad(frames, ((0, missing), (0, 0)), mode="edge")
    return np.ascontiguousarray(whole.reshape(len(whole) // stack, -1), dtype=np.float32)


def read_features(line: str) -> Features:
    """The features that a line names, as they are: of a .wav file its cepstra, else the array in the file."""
    path = feature_file(line)
    if is_special(path):
        raise UnreadableFrames(path, "it is a pipe or a device", "give the path of a file")
    if path.lower().endswith(".wav"):
        samples, rate = read_wav(path)
        return Features(cepstra(samples, rate), rate)
    if not path.lower().endswith(SUFFIXES):
        raise UnreadableFrames(
            repr(line), "it is not the name of a .wav, .npy or .npz file", "give one such path per line"
        )
    try:
        array = _array(path, line.strip()[len(path) + 1 :])
    except OSError as error:
        raise no_file(path, error) from error
    except UnreadableFrames:
        raise
    except Exception as error:  # numpy and zipfile have a dozen kinds for what a damaged file makes them do
        raise UnreadableFrames(path, "it is no array file", "write it by numpy.save or numpy.savez") from error
    return Features(_as_frames(line, array))


def _array(path: str, key: str) -> NDArray[Any]:
    if not path.lower().endswith(".npz"):
        # Mapped, a header that claims more than the file has is an error, not an order for memory.
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    archive = _archive(path, Path(path).stat().st_mtime_ns)
    names = list(archive)
    if not key and len(names) != 1:
        raise UnreadableFrames(path, f"it holds {len(names)} arrays", "name one of them: FILE.npz#KEY")
    if key and key not in names:
        raise UnreadableFrames(path, "there is no array of that name in it", f"got {key!r}")
    return np.asarray(archive[key or names[0]])


@lru_cache(maxsize=4)
def _archive(path: str, changed: int) -> Any:
    """The open .npz file: a corpus may keep all its sequences in one, and its list of names is read once."""
    archive = np.load(path, allow_pickle=False)
    if isinstance(archive, np.ndarray):
        raise ValueError("a single array, whatever its name says")
    if any(entry.file_size > ARRAY_BYTES for entry in archive.zip.infolist()):
        raise _too_large(path)
    return archive


def _too_large(path: str) -> UnreadableFrames:
    return UnreadableFrames(path, f"an array in it has more than {ARRAY_BYTES:,} bytes", "cut the sequence")


def _as_frames(line: str, array: NDArray[Any]) -> Frames:
    """(S, F) of numbers; one number per step may come without the second axis."""
    frames = array[:, None] if array.ndim == 1 else array
    if frames.ndim != 2 or frames.shape[1] == 0 or frames.dtype.kind not in "biuf":
        raise UnreadableFrames(
            line,
            "it is not an array of numbers, steps by features",
            f"got {array.dtype} of shape {array.shape}",
        )
    if frames.size * np.dtype(np.float32).itemsize > ARRAY_BYTES:
        raise _too_large(line)
    frames = frames.astype(np.float32)
    if not np.isfinite(frames).all():
        raise UnreadableFrames(line, "a number in it is not finite", "compute the features again")
    return frames
