"""Sources other than text: sequences of feature vectors in .npy or .npz files, or sound in .wav files.

A `FrameReader` takes the place of the source tokenizer: a line is the path of a file, and `encode` returns an
array of frames.
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
from seqloom.text.sound import SHIFT, Frames, UnreadableFrames, cannot_open, cepstra, mfcc, read_wav

__all__ = ["FrameReader", "Frames", "UnreadableFrames", "mfcc", "read_features"]


_SUM_TOLERANCE = 1e-3  # of a distribution in single precision


class FrameSettings(Settings):
    """Options and statistics of a FrameReader."""

    kind: Literal["frames"] = "frames"
    center: Center | Literal["none"]  # none: distributions, which are checked and not changed
    stack: int
    rate: int | None  # samples per second of sound; None = the features come from arrays
    mean: tuple[float, ...]  # of each feature over the training data
    deviation: tuple[float, ...]  # standard deviation of each feature after centring


class FrameReader:
    """Reader of feature files: frames (S, F) float32, centred, scaled and stacked.

    The scale of a feature is the inverse of its standard deviation over the training data.
    """

    def __init__(self, settings: FrameSettings) -> None:
        self.settings = settings
        self.notes = list[str]()
        self._mean = np.asarray(settings.mean, np.float32)
        self._deviation = np.asarray(settings.deviation, np.float32)

    @classmethod
    def train(cls, lines: Iterable[str], *, center: Center | Literal["none"], stack: int) -> FrameReader:
        """Return a reader fitted to these files; `none` neither centres nor scales.

        Files that cannot be read, or differ from the first one in size or rate, are skipped.
        """
        moments, first, fault = _Moments(), None, None
        for line in lines:
            try:
                found = read_features(line)
            except UnreadableFrames as error:
                fault = fault or error
                continue
            if not len(found.frames):
                continue
            first = first or found
            if found.is_compatible(first):
                moments.add(found.frames - found.frames.mean(axis=0) if center == "sequence" else found.frames)
        if first is None:
            raise fault or SeqloomError("No feature file contains any frames.", "check the feature files")
        mean, deviation = moments.compute()
        if center == "none":
            mean, deviation = np.zeros_like(mean), np.ones_like(deviation)
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
        """Number of features per frame (F), after stacking."""
        return len(self.settings.mean) * self.settings.stack

    @property
    def vocabulary(self) -> object:
        """The reader itself, so that it never equals the vocabulary of a tokenizer."""
        return self

    @property
    def fingerprint(self) -> str:
        """Hash of everything that determines the frames of a file."""
        return hashlib.sha256(self.settings.model_dump_json().encode()).hexdigest()

    def encode(self, line: str) -> Frames:
        """Return the frames (S, F) of the file that a line names; S = 0 for an empty line."""
        if not line.strip():
            return np.empty((0, self.size), np.float32)
        found = read_features(line.strip())
        self._check(line.strip(), found)
        if not len(found.frames):
            return np.empty((0, self.size), np.float32)
        if self.is_distribution:
            _check_distributions(line.strip(), found.frames)
        center = found.frames.mean(axis=0) if self.settings.center == "sequence" else self._mean
        return _stacked((found.frames - center) / self._deviation, self.settings.stack)

    @property
    def is_distribution(self) -> bool:
        """Whether every frame is a distribution."""
        return self.settings.center == "none"

    def restore(self, frames: Frames) -> Frames:
        """Return frames on the scale of the files."""
        return frames * self._deviation + self._mean

    def _check(self, line: str, found: Features) -> None:
        """Raise if the file has another size or rate than the training data."""
        size, rate = len(self.settings.mean), self.settings.rate
        if found.frames.shape[1] != size:
            raise UnreadableFrames(
                line,
                f"it has {found.frames.shape[1]} features per frame; the training data has {size}",
                "compute the features in the same way as for training",
            )
        if found.rate != rate and found.rate and rate:
            raise UnreadableFrames(
                line,
                f"it has {found.rate} samples per second; the training data has {rate}",
                f"resample it, e.g. ffmpeg -i FILE -ar {rate} FILE.wav",
            )

    def pieces(self, count: int) -> list[str]:
        """Return a label per frame: its start time for sound, e.g. 0.34s, or its index from 0 for arrays."""
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


def _check_distributions(line: str, frames: Frames) -> None:
    """Raise unless every frame is a distribution."""
    sums = frames.sum(axis=1, dtype=np.float64)
    wrong = np.flatnonzero((frames < 0).any(axis=1) | (np.abs(sums - 1) > _SUM_TOLERANCE))
    if len(wrong):
        row = int(wrong[0])
        fault = "has a negative number" if (frames[row] < 0).any() else f"sums to {sums[row]:.6g}, not to 1"
        raise UnreadableFrames(
            line, f"row {row + 1} {fault}", "divide every row by its sum, or use text.target_tokenizer=vectors"
        )


class Features(NamedTuple):
    """Raw content of a feature file."""

    frames: Frames
    rate: int | None = None  # samples per second, for sound

    def is_compatible(self, other: Features) -> bool:
        """Return whether one reader can read both."""
        return self.frames.shape[1] == other.frames.shape[1] and self.rate == other.rate


class _Moments:
    """Running mean and standard deviation of frames, in double precision."""

    def __init__(self) -> None:
        self._count, self._sum, self._squares = 0, np.zeros(1), np.zeros(1)

    def add(self, frames: Frames) -> None:
        wide = frames.astype(np.float64)
        self._count += len(wide)
        self._sum, self._squares = self._sum + wide.sum(axis=0), self._squares + (wide**2).sum(axis=0)

    def compute(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean and standard deviation of each feature; the deviation of a constant feature is 1."""
        mean = self._sum / self._count
        deviation = np.sqrt(np.maximum(self._squares / self._count - mean**2, 0.0))
        return mean, np.where(deviation > 1e-5 * np.maximum(1.0, np.abs(mean)), deviation, 1.0)


def _stacked(frames: NDArray[np.floating[Any]], stack: int) -> Frames:
    """Concatenate every k frames, (⌈S / k⌉, k F); the last frame is repeated to fill the last group."""
    missing = -len(frames) % stack
    padded = np.pad(frames, ((0, missing), (0, 0)), mode="edge")
    return np.ascontiguousarray(padded.reshape(len(padded) // stack, -1), dtype=np.float32)


def read_features(line: str) -> Features:
    """Return the raw features that a line names: the cepstra of a .wav file, or the array in another file."""
    path = feature_file(line)
    if is_special(path):
        raise UnreadableFrames(path, "it is a pipe or a device", "use a regular file")
    if path.lower().endswith(".wav"):
        samples, rate = read_wav(path)
        return Features(cepstra(samples, rate), rate)
    if not path.lower().endswith(SUFFIXES):
        raise UnreadableFrames(
            repr(line), "it is not the path of a .wav, .npy or .npz file", "give one such path per line"
        )
    try:
        array = _array(path, line.strip()[len(path) + 1 :])
    except OSError as error:
        raise cannot_open(path, error) from error
    except UnreadableFrames:
        raise
    except Exception as error:  # numpy and zipfile raise a dozen exception types for damaged files
        raise UnreadableFrames(
            path, "it is not a NumPy file", "write it with numpy.save or numpy.savez"
        ) from error
    return Features(_as_frames(line, array))


def _array(path: str, key: str) -> NDArray[Any]:
    if not path.lower().endswith(".npz"):
        # With mmap, a header that claims more data than the file has raises an error instead of allocating it.
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    archive = _archive(path, Path(path).stat().st_mtime_ns)
    names = list(archive)
    if not key and len(names) != 1:
        raise UnreadableFrames(path, f"it contains {len(names)} arrays", "select one: FILE.npz#KEY")
    if key and key not in names:
        raise UnreadableFrames(path, "it has no array with that name", f"check the key {key!r}")
    return np.asarray(archive[key or names[0]])


@lru_cache(maxsize=4)
def _archive(path: str, changed: int) -> Any:
    """Return the open .npz file.

    A corpus may keep all its sequences in one file; the cache avoids reading its index for each of them.
    """
    archive = np.load(path, allow_pickle=False)
    if isinstance(archive, np.ndarray):
        raise ValueError("a single array in spite of the suffix .npz")
    if any(entry.file_size > ARRAY_BYTES for entry in archive.zip.infolist()):
        raise _too_large(path)
    return archive


def _too_large(path: str) -> UnreadableFrames:
    return UnreadableFrames(
        path, f"it contains an array of more than {ARRAY_BYTES:,} bytes", "split the sequence"
    )


def _as_frames(line: str, array: NDArray[Any]) -> Frames:
    """Return the array as frames (S, F); an array (S,) has one feature per step."""
    frames = array[:, None] if array.ndim == 1 else array
    if frames.ndim != 2 or frames.shape[1] == 0 or frames.dtype.kind not in "biuf":
        raise UnreadableFrames(
            line,
            "it is not a numeric array of shape (steps, features)",
            f"the array is {array.dtype} of shape {array.shape}",
        )
    if frames.size * np.dtype(np.float32).itemsize > ARRAY_BYTES:
        raise _too_large(line)
    frames = frames.astype(np.float32)
    if not np.isfinite(frames).all():
        raise UnreadableFrames(line, "it contains a number that is not finite", "compute the features again")
    return frames
