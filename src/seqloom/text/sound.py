"""Frames of sound: the cepstra of a .wav file with their deltas, computed by Kaldi's feature library."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import SeqloomError
from seqloom.limits import SOUND_BYTES

Frames = NDArray[np.float32]  # (S, F)

CEPSTRA = 13
SHIFT = 0.01  # seconds between frames; each window is 25 ms long
_LOWEST_RATE = 1000  # samples per second; below it, the mel bands do not fit
_HIGHEST_RATE = 1_000_000  # a higher rate means a damaged file, and its windows would exhaust memory
_BLOCK = 1 << 20  # samples per call of Kaldi, which takes a list of Python floats
_REACH = 2  # frames on each side of the regression window of a delta


class UnreadableFrames(SeqloomError):
    """A source that cannot be read as frames; `reason` is the error without its path, for counting."""

    def __init__(self, path: str | Path, reason: str, hint: str = "") -> None:
        super().__init__(f"{path} cannot be read as features: {reason}.", hint)
        self.reason = reason


def mfcc(path: str | Path) -> Frames:
    """Return the features (S, 39) of a .wav file: 13 cepstra every 10 ms, their deltas and delta-deltas."""
    return cepstra(*read_wav(path))


def cepstra(samples: Frames, rate: int) -> Frames:
    """Return Kaldi MFCCs with deltas, (S, 39), of samples (N,) in the 16-bit range."""
    try:
        import kaldi_native_fbank as kaldi
    except ImportError as error:
        raise SeqloomError(
            "Reading sound requires the package kaldi-native-fbank, which is not installed.",
            "pip install seqloom[speech]",
        ) from error
    options = kaldi.MfccOptions()
    options.num_ceps = CEPSTRA
    options.use_energy = False  # use C0, the log energy over the mel bands
    options.frame_opts.samp_freq = rate
    options.frame_opts.dither = 0.0  # deterministic frames
    options.frame_opts.snip_edges = False  # one frame per 10 ms, however short the sound
    stream = kaldi.OnlineMfcc(options)
    for start in range(0, len(samples), _BLOCK):
        stream.accept_waveform(rate, samples[start : start + _BLOCK].tolist())
    stream.input_finished()
    found = [stream.get_frame(i) for i in range(stream.num_frames_ready)]
    static = np.asarray(found, np.float32).reshape(len(found), CEPSTRA)
    slopes = deltas(static)
    return np.concatenate((static, slopes, deltas(slopes)), axis=1)


def deltas(frames: Frames) -> Frames:
    """Return the slope at each frame: Σ n (c[t+n] − c[t−n]) / 2 Σ n² for n = 1, 2 (Furui 1986).

    The first and the last frame are repeated at the ends.
    """
    if not len(frames):
        return frames
    padded = np.pad(frames, ((_REACH, _REACH), (0, 0)), mode="edge")
    count, reach = len(frames), range(1, _REACH + 1)
    rises = [n * (padded[_REACH + n :][:count] - padded[_REACH - n :][:count]) for n in reach]
    return np.asarray(sum(rises) / (2 * sum(n * n for n in reach)), np.float32)


def read_wav(path: str | Path) -> tuple[Frames, int]:
    """Return samples (N,) in the 16-bit range, with all channels mixed into one, and the sampling rate."""
    try:
        if Path(path).stat().st_size > SOUND_BYTES:
            raise UnreadableFrames(path, f"it has more than {SOUND_BYTES:,} bytes", "split the recording")
        with wave.open(str(path), "rb") as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            data = file.readframes(file.getnframes())
    except OSError as error:
        raise cannot_open(path, error) from error
    except ValueError as error:  # a null byte or an unpaired surrogate
        raise UnreadableFrames(repr(path), "the path is not valid", "check the table") from error
    except (wave.Error, EOFError, RuntimeError) as error:  # RuntimeError: a chunk is longer than the file
        raise UnreadableFrames(
            path,
            f"it is not a PCM .wav file ({str(error) or 'unexpected end of file'})",
            "convert it, e.g. ffmpeg -i FILE FILE.wav",
        ) from error
    if width > 4 or not _LOWEST_RATE <= rate <= _HIGHEST_RATE:
        raise UnreadableFrames(
            path,
            f"{rate} samples per second of {8 * width} bits is not supported",
            "record it again",
        )
    complete = len(data) - len(data) % (width * channels)  # a truncated recording may end within a sample
    samples = _samples(np.frombuffer(data[:complete], np.uint8), width)
    return samples.reshape(-1, channels).mean(axis=1), rate


def _samples(data: NDArray[np.uint8], width: int) -> Frames:
    """Return samples of `width` bytes each, scaled to the 16-bit range."""
    if width == 1:  # 8-bit samples are unsigned
        return (data.astype(np.float32) - 128) * 2**8
    # The bytes become the upper end of 32 bits, so all widths share one scale and 24 bits need no special type.
    wide = np.zeros((len(data) // width, 4), np.uint8)
    wide[:, 4 - width :] = data.reshape(-1, width)
    return (wide.view("<i4")[:, 0] / 2**16).astype(np.float32)


def cannot_open(path: str | Path, error: OSError) -> UnreadableFrames:
    """Return the error for a file that cannot be opened."""
    reason = "the file does not exist" if isinstance(error, FileNotFoundError) else str(error.strerror or error)
    return UnreadableFrames(
        path, reason, "paths are relative to the folder of the table or to the current folder"
    )
