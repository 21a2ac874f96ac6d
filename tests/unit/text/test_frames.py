"""The frame reader, which takes the place of the source tokenizer."""

from __future__ import annotations

import json
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from seqloom.errors import SeqloomError
from seqloom.text.config import Center, TextConfig
from seqloom.text.frames import FrameReader, UnreadableFrames, read_features
from seqloom.text.pair import TokenizerPair
from seqloom.types import Vocabularies

Array = NDArray[np.float32]


def arrays(count: int = 6, features: int = 3) -> list[Array]:
    """Return sequences of 4 to 9 steps, in which each feature has another mean and scale."""
    random = np.random.default_rng(1)
    scale, shift = 10.0 ** np.arange(features), np.arange(features)
    found = [random.normal(size=(4 + i, features)) * scale + shift + i for i in range(count)]
    return [array.astype(np.float32) for array in found]


def save(folder: Path, given: Sequence[Array]) -> list[str]:
    paths = [str(folder / f"{i}.npy") for i in range(len(given))]
    for path, array in zip(paths, given, strict=True):
        np.save(path, array)
    return paths


def write_wav(path: Path, *, rate: int = 8000) -> str:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        noise = np.random.default_rng(0).integers(-9999, 9999, rate // 5)
        file.writeframes(noise.astype("<i2").tobytes())
    return str(path)


def reader(lines: Sequence[str], center: Center = "corpus", stack: int = 1) -> FrameReader:
    return FrameReader.train(lines, center=center, stack=stack)


def test_frames_have_mean_0_and_variance_1_over_the_corpus(tmp_path: Path) -> None:
    lines = save(tmp_path, arrays())
    made = reader(lines)
    every = np.concatenate([made.encode(line) for line in lines])
    assert made.size == 3 and every.dtype == np.float32
    np.testing.assert_allclose(every.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(every.std(axis=0), 1, atol=1e-5)


def test_with_sequence_centring_each_sequence_has_mean_0(tmp_path: Path) -> None:
    lines = save(tmp_path, arrays())
    made = reader(lines, "sequence")
    encoded = [made.encode(line) for line in lines]
    for frames in encoded:
        np.testing.assert_allclose(frames.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(np.concatenate(encoded).std(axis=0), 1, atol=1e-5)


def test_a_constant_feature_is_not_scaled_up(tmp_path: Path) -> None:
    lines = save(tmp_path, [np.full((5, 2), 7, np.float32), np.full((3, 2), 7, np.float32)])
    assert np.abs(reader(lines).encode(lines[0])).max() < 1e-3


def test_stacked_frames_are_concatenated(tmp_path: Path) -> None:
    lines = save(tmp_path, arrays())
    plain, stacked = reader(lines).encode(lines[1]), reader(lines, stack=2)  # 5 steps: one is repeated
    found = stacked.encode(lines[1])
    assert stacked.size == 6
    assert np.array_equal(found, np.concatenate([plain, plain[-1:]]).reshape(3, 6))
    assert stacked.pieces(3) == ["0", "2", "4"]


def test_frame_labels_are_times_for_sound_and_indices_for_arrays(tmp_path: Path) -> None:
    made = reader([write_wav(tmp_path / "a.wav")], stack=3)
    assert made.size == 3 * 39
    assert made.encode(str(tmp_path / "a.wav")).shape == (7, 117)
    assert made.pieces(3) == ["0.00s", "0.03s", "0.06s"]
    assert reader(save(tmp_path, arrays())).pieces(3) == ["0", "1", "2"]


def test_an_empty_line_has_no_frames(tmp_path: Path) -> None:
    lines = save(tmp_path, arrays())
    assert reader(lines).encode(" ").shape == (0, 3)
    np.save(tmp_path / "none.npy", np.zeros((0, 3)))
    assert reader(lines).encode(str(tmp_path / "none.npy")).shape == (0, 3)


def test_an_archive_with_several_arrays_needs_a_key(tmp_path: Path) -> None:
    first, second = arrays(2)
    np.savez(tmp_path / "two.npz", **{"a": first, "b#c": second})
    np.savez(tmp_path / "one.npz", first)
    path = tmp_path / "two.npz"
    assert np.array_equal(read_features(f"{path}#b#c").frames, second)
    assert np.array_equal(read_features(f"{path}#a").frames, first)
    assert np.array_equal(read_features(str(tmp_path / "one.npz")).frames, first)
    with pytest.raises(UnreadableFrames, match="it contains 2 arrays"):
        read_features(str(path))
    with pytest.raises(UnreadableFrames, match="it has no array with that name"):
        read_features(f"{path}#d")
    np.savez(path, a=second)  # a file that has changed is read again
    assert np.array_equal(read_features(f"{path}#a").frames, second)


def test_an_array_with_one_axis_has_one_feature_per_step(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(5))
    assert read_features(str(tmp_path / "a.npy")).frames.shape == (5, 1)


@pytest.mark.parametrize(
    "array, reason",
    [
        (np.zeros((2, 3, 4)), r"\(steps, features\)"),
        (np.zeros((2, 0)), r"\(steps, features\)"),
        (np.array([["a"]]), r"\(steps, features\)"),
        (np.array([[1.0, np.nan]]), "a number that is not finite"),
        (np.array([[{}]], dtype=object), "it is not a NumPy file"),
    ],
)
def test_arrays_that_are_not_sequences_of_vectors_are_rejected(
    tmp_path: Path, array: Array, reason: str
) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(UnreadableFrames, match=rf"a\.npy cannot be read as features: .*{reason}"):
        read_features(str(tmp_path / "a.npy"))


def test_files_that_are_not_numpy_files_are_rejected(tmp_path: Path) -> None:
    for name in ("a.npy", "a.npz"):
        with pytest.raises(UnreadableFrames, match="the file does not exist"):
            read_features(str(tmp_path / name))
        (tmp_path / name).write_text("text")
        with pytest.raises(UnreadableFrames, match="it is not a NumPy file"):
            read_features(str(tmp_path / name))
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.zeros((1, 2)))
    with pytest.raises(UnreadableFrames, match="it is not a NumPy file"):
        read_features(str(tmp_path / "a.npz"))
    with pytest.raises(UnreadableFrames, match=r"'a text' .* not the path of a \.wav, \.npy or \.npz file"):
        read_features("a text")


def test_another_number_of_features_is_rejected(tmp_path: Path) -> None:
    made = reader(save(tmp_path, arrays()))
    np.save(tmp_path / "wide.npy", np.zeros((4, 5)))
    with pytest.raises(UnreadableFrames, match="it has 5 features per frame; the training data has 3"):
        made.encode(str(tmp_path / "wide.npy"))


def test_another_sampling_rate_is_rejected(tmp_path: Path) -> None:
    made = reader([write_wav(tmp_path / "a.wav")])
    with pytest.raises(
        UnreadableFrames, match="it has 16000 samples per second; the training data has 8000"
    ) as caught:
        made.encode(write_wav(tmp_path / "b.wav", rate=16000))
    assert "-ar 8000" in caught.value.hint


def test_unreadable_files_do_not_affect_the_moments(tmp_path: Path) -> None:
    lines = save(tmp_path, arrays())
    np.save(tmp_path / "wide.npy", np.full((4, 5), 1e6))
    more = [str(tmp_path / "gone.npy"), *lines, str(tmp_path / "wide.npy")]
    assert reader(more).settings == reader(lines).settings
    with pytest.raises(UnreadableFrames, match="the file does not exist"):
        reader([str(tmp_path / "gone.npy")])
    with pytest.raises(SeqloomError, match="No feature file contains any frames"):
        reader([])


def test_a_pair_saves_and_loads_its_reader(tmp_path: Path) -> None:
    lines = save(tmp_path, arrays())
    config = TextConfig(tokenizer="frames", target_tokenizer="char", stack=2)
    pair = TokenizerPair.train(config, lambda: [(line, "abc") for line in lines])
    assert pair.frames and not pair.joint and pair.source_end == 0
    assert pair.vocabularies == Vocabularies(6, pair.target.size, shared=False, features=True)
    pair.save(tmp_path / "tokenizer")
    loaded = TokenizerPair.load(tmp_path / "tokenizer")
    assert loaded.fingerprint == pair.fingerprint
    frames = pair.reader.encode(lines[2])
    assert np.array_equal(loaded.reader.encode(lines[2]), frames)
    assert loaded.source_pieces(frames) == ["0", "2", "4"]  # type: ignore[arg-type]
    record = tmp_path / "tokenizer" / "source.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "stack": "two"}))
    with pytest.raises(SeqloomError, match=r"source\.json is damaged"):
        TokenizerPair.load(tmp_path / "tokenizer")


def test_the_fingerprint_depends_on_the_options_and_the_data(tmp_path: Path) -> None:
    lines = save(tmp_path, arrays())
    made = [reader(lines), reader(lines, "sequence"), reader(lines, stack=2), reader(lines[1:])]
    assert len({one.fingerprint for one in made}) == 4
    assert reader(lines).fingerprint == made[0].fingerprint


def test_the_source_tokenizer_of_a_pair_with_frames_is_an_error(tmp_path: Path) -> None:
    lines = save(tmp_path, arrays())
    config = TextConfig(tokenizer="frames", target_tokenizer="char")
    pair = TokenizerPair.train(config, lambda: [(line, "abc") for line in lines])
    with pytest.raises(SeqloomError, match="feature files, but this operation supports only text"):
        _ = pair.source
