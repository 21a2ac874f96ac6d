"""Sound to frames: the cepstra of a .wav file with their slopes, by Kaldi's feature library."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import SeqloomError
from seqloom.limits import SOUND_BYTES

Frames = NDArray[np.float32]  # (S, F)

CEPSTRA = 13
SHIFT = 0.01  # seconds from one frame to the next; each looks at 25 ms
_LOWEST_RATE = 1000  # samples per second in which the bands of the cepstra still have room
_HIGHEST_RATE = 1_000_000  # what claims more is damaged, and its windows would take all memory
_BLOCK = 1 << 20  # samples that are passed on together, as a list of Python's numbers
_REACH = 2  # frames to each side that a slope is fitted to


class UnreadableFrames(SeqloomError):
    """A source that gives no frames. `reason` is the fault without its place, to count like faults by."""

    def __init__(self, path: str | Path, reason: str, hint: str = "") -> None:
        super().__init__(f"{path} cannot be read as features: {reason}.", hint)
        self.reason = reason


def mfcc(path: str | Path) -> Frames:
    """(S, 39): 13 cepstra of every 10 ms of a .wav file, their slopes, and the slopes of these."""
    return cepstra(*read_wav(path))


def cepstra(samples: Frames, rate: int) -> Frames:
    """(S, 39) of samples (N,) in the range of 16 bits: MFCC as Kaldi computes them, and deltas."""
    try:
        import kaldi_native_fbank as kaldi
    except ImportError as error:
        raise SeqloomError(
            "Sound needs the package kaldi-native-fbank, which is not installed.", "pip install seqloom[speech]"
        ) from error
    options = kaldi.MfccOptions()
    options.num_ceps = CEPSTRA
    options.use_energy = False  # C0 instead: the loudness over the mel bands
    options.frame_opts.samp_freq = rate
    options.frame_opts.dither = 0.0  # the same sound, the same frames
    options.frame_opts.snip_edges = False  # a frame for every 10 ms, however short the sound
    stream = kaldi.OnlineMfcc(options)
    for start in range(0, len(samples), _BLOCK):
        stream.accept_waveform(rate, samples[start : start + _BLOCK].tolist())
    stream.input_finished()
    found = [stream.get_frame(i) for i in range(stream.num_frames_ready)]
    static = np.asarray(found, np.float32).reshape(len(found), CEPSTRA)
    slopes = deltas(static)
    return np.concatenate((static, slopes, deltas(slopes)), axis=1)


def deltas(frames: Frames) -> Frames:
    """The slope at every frame: Σ n (c[t+n] − c[t−n]) / 2 Σ n² for n = 1, 2 (Furui 1986); ends are repeated."""
    if not len(frames):
        return frames
    padded = np.pad(frames, ((_REACH, _REACH), (0, 0)), mode="edge")
    count, reach = len(frames), range(1, _REACH + 1)
    rises = [n * (padded[_REACH + n :][:count] - padded[_REACH - n :][:count]) for n in reach]
    return np.asarray(sum(rises) / (2 * sum(n * n for n in reach)), np.float32)


def read_wav(path: str | Path) -> tuple[Frames, int]:
    """Samples (N,) in the range of 16 bits, all channels mixed into one, and their number per second."""
    try:
        if Path(path).stat().st_size > SOUND_BYTES:
            raise UnreadableFrames(path, f"it has more than {SOUND_BYTES:,} bytes", "cut the recording")
        with wave.open(str(path), "rb") as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            data = file.readframes(file.getnframes())
    except OSError as error:
        raise no_file(path, error) from error
    except ValueError as error:  # a zero byte, or half a surrogate pair
        raise UnreadableFrames(repr(path), "there can be no such path", "check the table") from error
    except (wave.Error, EOFError, RuntimeError) as error:  # RuntimeError: a part is longer than what it is in
        raise UnreadableFrames(
            path, f"it is no PCM .wav file ({str(error) or 'it ends too soon'})", "e.g. ffmpeg -i FILE FILE.wav"
        ) from error
    if width > 4 or not _LOWEST_RATE <= rate <= _HIGHEST_RATE:
        raise UnreadableFrames(path, f"it has {rate} samples of {8 * width} bits per second", "record it anew")
    whole = len(data) - len(data) % (width * channels)  # a recording that was cut off may end amid a sample
    samples = _samples(np.frombuffer(data[:whole], np.uint8), width)
    return samples.reshape(-1, channels).mean(axis=1), rate


def _samples(data: NDArray[np.uint8], width: int) -> Frames:
    """Samples of so many bytes each, scaled to the range of 16 bits."""
    if width == 1:  # the only width without a sign
        return (data.astype(np.float32) - 128) * 2**8
    # The bytes go to the upper end of 32 bits: so all widths have one scale, and 24 bits need no own type.
    wide = np.zeros((len(data) // width, 4), np.uint8)
    wide[:, 4 - width :] = data.reshape(-1, width)
    return (wide.view("<i4")[:, 0] / 2**16).astype(np.float32)


def no_file(path: str | Path, error: OSError) -> UnreadableFrames:
    """The error for a file that cannot be opened."""
    reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error.strerror or error)
    return UnreadableFrames(path, reason, "paths are from the folder of the table, or from the current one")
