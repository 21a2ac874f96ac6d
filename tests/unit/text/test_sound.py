"""Samples of any width, and cepstra."""

from __future__ import annotations

import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from seqloom.errors import SeqloomError
from seqloom.text.sound import UnreadableFrames, deltas, mfcc, read_wav

RATE = 8000


def tone(seconds: float = 0.3, pitch: float = 440.0) -> NDArray[np.float64]:
    """Return samples between -1 and 1."""
    return 0.5 * np.sin(2 * np.pi * pitch * np.arange(int(seconds * RATE)) / RATE)


def write(
    path: Path, samples: NDArray[np.float64], *, width: int = 2, channels: int = 1, rate: int = RATE
) -> Path:
    """Write samples (N,) or (N, channels) between -1 and 1 to a PCM file."""
    whole = np.rint(samples.reshape(-1) * 2 ** (8 * width - 1)).astype("<i8")
    if width == 1:
        data = (whole + 128).astype(np.uint8).tobytes()
    else:
        data = whole.view(np.uint8).reshape(-1, 8)[:, :width].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)
    return path


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_every_sample_width_gives_the_same_samples(tmp_path: Path, width: int) -> None:
    samples, rate = read_wav(write(tmp_path / "a.wav", tone(), width=width))
    assert rate == RATE
    assert samples.dtype == np.float32
    np.testing.assert_allclose(samples, tone() * 2**15, atol=129 if width == 1 else 0.51)


def test_channels_are_mixed_into_one(tmp_path: Path) -> None:
    left, right = tone(pitch=300), tone(pitch=500)
    samples, _ = read_wav(write(tmp_path / "a.wav", np.stack([left, right], axis=1), channels=2))
    np.testing.assert_allclose(samples, (left + right) / 2 * 2**15, atol=1)


def test_every_10_ms_have_39_features(tmp_path: Path) -> None:
    frames = mfcc(write(tmp_path / "a.wav", tone(0.3)))
    assert frames.shape == (30, 39)
    assert frames.dtype == np.float32 and np.isfinite(frames).all()
    assert np.array_equal(frames, mfcc(tmp_path / "a.wav"))


def test_frames_are_aligned_with_the_sound(tmp_path: Path) -> None:
    frames = mfcc(write(tmp_path / "a.wav", np.concatenate([0.001 * tone(0.3), tone(0.3)])))
    loudness = frames[:, 0]
    assert loudness[33:].min() > loudness[:27].max()
    assert 28 <= frames[:, 13].argmax() <= 32  # the slope is steepest where the loud part begins


def test_a_sound_of_a_few_samples_has_no_frames(tmp_path: Path) -> None:
    assert mfcc(write(tmp_path / "a.wav", tone(0.001))).shape == (0, 39)


def test_a_delta_is_the_slope_of_a_line_fitted_to_five_frames() -> None:
    frames = np.random.default_rng(1).normal(size=(12, 3)).astype(np.float32)
    found = deltas(frames)
    assert found.shape == (12, 3)
    for t in range(2, 10):
        np.testing.assert_allclose(found[t], np.polyfit(range(-2, 3), frames[t - 2 : t + 3], 1)[0], atol=1e-5)
    edge = np.concatenate([frames[:1], frames[:1], frames[:3]])  # the first frame is repeated
    np.testing.assert_allclose(found[0], np.polyfit(range(-2, 3), edge, 1)[0], atol=1e-5)


def test_files_that_are_not_sound_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        UnreadableFrames, match=r"gone\.wav cannot be read as features: the file does not exist"
    ):
        mfcc(tmp_path / "gone.wav")
    with pytest.raises(UnreadableFrames, match="Is a directory"):
        mfcc(tmp_path)
    (tmp_path / "text.wav").write_text("text that is long enough to be read")
    with pytest.raises(UnreadableFrames, match=r"it is not a PCM \.wav file"):
        mfcc(tmp_path / "text.wav")
    (tmp_path / "empty.wav").touch()
    with pytest.raises(UnreadableFrames, match="unexpected end of file"):
        mfcc(tmp_path / "empty.wav")


def test_a_sampling_rate_that_is_too_low_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFrames, match="50 samples per second of 16 bits is not supported"):
        mfcc(write(tmp_path / "a.wav", tone(), rate=50))


def test_a_recording_truncated_within_a_sample_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", np.stack([tone(), tone()], axis=1), channels=2)
    path.write_bytes(path.read_bytes()[:-3])
    assert len(read_wav(path)[0]) == len(tone()) - 1


def test_a_missing_library_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kaldi_native_fbank", None)
    with pytest.raises(SeqloomError, match="requires the package kaldi-native-fbank"):
        mfcc(write(tmp_path / "a.wav", tone()))
