"""Files that claim or decompress to more than any memory: rejected with a clear error."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data import tables
from seqloom.data.columns import ColumnSelection
from seqloom.data.config import Format
from seqloom.data.corpus import Corpus
from seqloom.data.lines import lines
from seqloom.data.tables import rows
from seqloom.errors import LONGEST, SeqloomError, quoted
from seqloom.export.marian.folder import MarianConfig, read_options
from seqloom.files import read_json
from seqloom.run.config import compose, from_tree, read_yaml
from seqloom.run.directory import Run
from seqloom.statistical.ngram.arpa import read_arpa
from seqloom.text import frames
from seqloom.text.frames import read_features

pytestmark = pytest.mark.usefixtures("little_memory")


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """Return 128 KB that decompress to a line of 128 MB."""
    return gzip.compress(b"x" * (1 << 27), 1)


def test_a_line_without_end(bomb: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(bomb)
    with pytest.raises(SeqloomError, match=r"a\.gz, line 1 has more than 67,108,864 bytes"):
        list(lines(str(tmp_path / "a.gz")))


def test_an_arpa_file_without_lines(bomb: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.arpa.gz").write_bytes(bomb)
    with pytest.raises(SeqloomError, match=r"has no .data"):
        read_arpa(tmp_path / "a.arpa.gz")


@pytest.mark.parametrize("rows", [10**6, 10**9, 10**12, 10**18])
def test_an_array_header_that_claims_too_much_data(rows: int, tmp_path: Path) -> None:
    out = io.BytesIO()
    shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, 3)}
    np.lib.format.write_array_header_1_0(out, shape)
    (tmp_path / "a.npy").write_bytes(out.getvalue() + bytes(120))
    with pytest.raises(SeqloomError, match=r"a\.npy cannot be read as features: it is not a NumPy file"):
        read_features(str(tmp_path / "a.npy"))


def test_an_archive_that_decompresses_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros((1000, 1000)))
    assert (tmp_path / "a.npz").stat().st_size < 10_000
    assert read_features(str(tmp_path / "a.npz")).frames.shape == (1000, 1000)
    frames._archive.cache_clear()
    monkeypatch.setattr(frames, "ARRAY_BYTES", 1_000_000)
    with pytest.raises(SeqloomError, match=r"it contains an array of more than 1,000,000 bytes"):
        read_features(str(tmp_path / "a.npz"))


def test_a_sparse_array(tmp_path: Path) -> None:
    """A sparse file takes no disk space, but all memory when it is read."""
    np.lib.format.open_memmap(tmp_path / "a.npy", mode="w+", dtype=np.uint8, shape=(1 << 19, 1 << 10)).flush()
    with pytest.raises(SeqloomError, match="it contains an array of more than 1,073,741,824 bytes"):
        read_features(str(tmp_path / "a.npy"))


def test_a_recording_without_end(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
    os.truncate(tmp_path / "a.wav", 1 << 31)
    with pytest.raises(SeqloomError, match="it has more than 268,435,456 bytes"):
        read_features(str(tmp_path / "a.wav"))


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.npz#key", "a.wav"])
def test_features_from_a_pipe(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name.partition("#")[0])
    with pytest.raises(SeqloomError, match="it is a pipe or a device"):
        read_features(str(tmp_path / name))


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "vocab.json", "source.spm"])
def test_a_pipe_in_a_marian_folder(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(SeqloomError, match=f"{name} is a pipe or a device"):
        read_options(tmp_path)


@pytest.mark.parametrize("name", ["a.tsv", "a.parquet"])
def test_training_data_from_a_pipe(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    config = compose(values={"data.train": str(tmp_path / name)})
    with pytest.raises(SeqloomError, match="data is read more than once"):
        Corpus(config.data, config.text).prepare()


@pytest.mark.parametrize("format", ["tsv", "csv"])
def test_a_row_of_separators(format: Format, tmp_path: Path) -> None:
    separator = "\t" if format == "tsv" else ","
    (tmp_path / "a").write_text(f"a{separator}b\n" + separator * (5 << 20) + f"\nc{separator}d\n")
    found = list(rows(str(tmp_path / "a"), format, ColumnSelection("1", ["2"])))
    assert [picked for _, picked in found if isinstance(picked, str)] == ["more than 10,000 columns"]
    assert len(found) == 3


def _parquet(path: Path, source: Any, **options: Any) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    table = pyarrow.table({"source": source, "target": ["a"] * len(source)})
    parquet.write_table(table, path, compression="brotli", **options)


def test_a_parquet_page_that_decompresses_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PARQUET_PAGE_BYTES", 1 << 24)
    _parquet(tmp_path / "a.parquet", ["x" * (1 << 25)])
    assert (tmp_path / "a.parquet").stat().st_size < 1000
    with pytest.raises(
        SeqloomError, match=r"has a page of 33,554,4\d\d bytes after decompression; the limit is 16,777,216"
    ):
        list(rows(str(tmp_path / "a.parquet"), "parquet", ColumnSelection("source", ["target"])))


def test_a_parquet_column_whose_name_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    _parquet(file, ["a", "b"])
    name = b"\x19\x18\x06source"  # in the footer: a path of one name with six bytes
    assert name in file.read_bytes()
    file.write_bytes(file.read_bytes().replace(name, name[:-1] + b"\xe5"))
    with pytest.raises(SeqloomError, match="damaged"):
        list(rows(str(file), "parquet", ColumnSelection("source", ["target"])))


@pytest.mark.parametrize(("encoding", "repeats"), [(None, True), ("DELTA_BYTE_ARRAY", True), ("PLAIN", False)])
def test_few_parquet_cells_are_read_together_if_each_may_be_large(
    encoding: str | None, repeats: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells of 64 KiB that are stored once: as a dictionary, or as a prefix of the next cell."""
    monkeypatch.setattr(tables, "PARQUET_BATCH_BYTES", 1 << 20)
    batches: list[int] = []
    parquet = pytest.importorskip("pyarrow.parquet")
    read = parquet.ParquetFile.iter_batches

    def fitted(self: Any, batch_size: int, **options: Any) -> Any:
        batches.append(batch_size)
        return read(self, batch_size=batch_size, **options)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", fitted)
    options = {"use_dictionary": False, "column_encoding": {"source": encoding}} if encoding else {}
    _parquet(tmp_path / "a.parquet", ["x" * (1 << 16)] * 100, **options)
    found = list(rows(str(tmp_path / "a.parquet"), "parquet", ColumnSelection("source", ["target"])))
    assert [picked.source for _, picked in found if not isinstance(picked, str)] == ["x" * (1 << 16)] * 100
    assert batches == [15 if repeats else 1024]


@pytest.mark.parametrize("header", [b"\x1c" * 5000, b"\x15" + b"\xff" * 50, b"\x18\xff\xff\xff\x7f", b"\x1f"])
def test_a_parquet_page_without_a_header(header: bytes, tmp_path: Path) -> None:
    """Endless structures, an endless number, a string longer than the file, an unknown type."""
    _parquet(tmp_path / "a.parquet", ["".join(map(chr, range(1000, 9000)))], use_dictionary=False)
    content = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + header + content[4 + len(header) :])
    with pytest.raises(SeqloomError, match="is damaged after row 0"):
        list(rows(str(tmp_path / "a.parquet"), "parquet", ColumnSelection("source", ["target"])))


def test_sound_with_an_impossible_rate(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 2_000_000_000, 0, "NONE", ""))
        file.writeframes(bytes(400))
    with pytest.raises(SeqloomError, match="2000000000 samples per second of 16 bits is not supported"):
        read_features(str(tmp_path / "a.wav"))


@pytest.mark.parametrize("model", ["transformer", "lm", "lstm-dot"])
def test_layers_without_end(model: str) -> None:
    with pytest.raises(SeqloomError, match=r"model\.layers in .*less than or equal to 1000"):
        from_tree({"model": {"name": model, "layers": 10**9}}, "the test")


PARTS = ("layers", "attention_heads", "ffn_dim")
SIZES = {f"{side}_{part}": 2 for side in ("encoder", "decoder") for part in PARTS}


def test_a_vocabulary_without_end() -> None:
    with pytest.raises(SeqloomError, match=r"config\.vocab_size in .*less than or equal to"):
        MarianConfig.checked({"model_type": "marian", "d_model": 8, **SIZES, "vocab_size": 10**12}, "config")


def test_quoted_values_are_short() -> None:
    value: object = "x"
    for _ in range(30):
        value = [value] * 10
    assert len(quoted(value)) < LONGEST
    assert quoted("abc") == "'abc'"
    assert quoted([1, 2]) == "[1, 2]"


def test_a_message_is_one_printable_line() -> None:
    error = SeqloomError("There is no file \x1b[2J\u202e\udcff.\nTraceback", "x" * 10_000)
    assert error.message == r"There is no file \x1b[2J\u202e\udcff.\nTraceback"
    assert len(error.hint) < LONGEST + 10
    assert str(SeqloomError("Größe ≤ 5, „so“.", "▁")) == "Größe ≤ 5, „so“.\n  hint: ▁"


def test_a_run_contains_only_regular_files_and_folders(runs: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(runs / "transformer", tmp_path / "run", symlinks=True))
    assert Run.open(folder).checkpoints().steps() == [2, 4]
    (tmp_path / "link").symlink_to(folder)
    Run.open(tmp_path / "link")  # the run itself may be a link
    (folder / "notes").symlink_to("/etc/hostname")
    with pytest.raises(SeqloomError, match="notes is a link that leads out of the run directory"):
        Run.open(folder)
    (folder / "notes").unlink()
    os.mkfifo(folder / "notes")
    with pytest.raises(SeqloomError, match="notes is neither a file nor a folder"):
        Run.open(folder)
    (folder / "notes").unlink()
    (folder / "checkpoints" / "step-²").mkdir()  # not a number, although str.isdigit accepts it
    assert Run.open(folder).checkpoints().steps() == [2, 4]


def test_numbers_in_json_without_end(tmp_path: Path) -> None:
    for content in ("9" * 10_000, "[" * 100_000, json.dumps("x")[:-1]):
        (tmp_path / "a.json").write_text(content)
        with pytest.raises(SeqloomError, match=r"a\.json is missing or damaged"):
            read_json(tmp_path / "a.json")


@pytest.mark.parametrize(
    "value", ["2001-99-99", "!!int ''", "!!bool x", "!!timestamp x", "!!set [a]", "[" * 500]
)
def test_yaml_that_breaks_its_library(value: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"model: {value}\n")
    with pytest.raises(SeqloomError, match=r"a\.yaml is not valid YAML"):
        read_yaml(tmp_path / "a.yaml")
    with pytest.raises(SeqloomError, match="has a value that is not valid YAML"):
        compose(assignments=[f"model={value}"])
