"""All data readers with damaged files: valid examples, or one error message."""

from __future__ import annotations

import gzip
import io
import json
import struct
import wave
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqloom.cli.evaluate_alignment import read_gold
from seqloom.data import readers
from seqloom.data.lines import lines
from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError
from seqloom.evaluate.alignment import parse_links
from seqloom.languages import LanguagePair
from seqloom.statistical.ngram.arpa import read_arpa
from seqloom.statistical.ngram.assembly import assemble
from seqloom.text.frames import read_features
from seqloom.types import Example

Read = Callable[[Path], object]

TSV = "source\ttarget\theads\nein Haus\ta house\t2 0\nzwei\ttwo\t0\n\"x\t'y\t0\n"
CSV = 'source,target,more\nein Haus,"a ""big""\nhouse",1\nzwei,two,\n'
JSONL = (
    '{"source": "ein Haus", "target": "a house", "translation": {"en": "a", "n": [1, null, 1.5]}}\n'
    '{"target": "\\u00e9\\ud83d\\ude00", "source": "zwei"}\n'
)
CONLLU = (
    "# text = ein Haus\n1-2\tx\t_\t_\t_\t_\t_\t_\t_\t_\n1\tein\t_\t_\t_\t_\t2\tdet\t_\t_\n"
    "2\tHaus\t_\t_\t_\t_\t0\troot\t_\t_\n\n1\tja\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
)
ARPA = (
    "\\data\\\nngram 1=4\nngram 2=2\n\n\\1-grams:\n-0.5\t</s>\n-99\t<s>\t-0.3\n-0.5\ta\t-0.2\n-1\t<unk>\n\n"
    "\\2-grams:\n-0.2\t<s> a\n-0.1\ta </s>\n\n\\end\\\n"
)
TMX = (
    '<?xml version="1.0"?><tmx version="1.4"><header srclang="de"/><body><tu><tuv xml:lang="de"><seg>ein '
    '<bpt i="1" x="2"/>Haus<ept i="1"/></seg></tuv><tuv xml:lang="en"><seg>a house</seg></tuv></tu>'
    '<tu><tuv xml:lang="de"><seg>zwei<ph/></seg></tuv></tu></body></tmx>'
)
XLIFF = (
    '<xliff version="1.2"><file source-language="de" target-language="en"><body><trans-unit id="1"><source>ein '
    '<g id="1">Haus</g></source><target state="new">a house</target></trans-unit><trans-unit><source>a</source>'
    '<seg-source><mrk mtype="seg" mid="1">a</mrk></seg-source></trans-unit></body></file></xliff>'
)
XLIFF2 = (
    '<xliff version="2.0" srcLang="de" trgLang="en"><file id="f"><unit id="1"><segment><source>ein <pc id="1">'
    '<cp hex="0007"/>Haus</pc></source><target>a house</target></segment></unit></file></xliff>'
)
QT = (
    '<!DOCTYPE TS><TS version="2.1" language="en"><context><message numerus="yes"><source>a<byte value="x9"/>'
    "</source><translation><numerusform>b</numerusform><numerusform>c</numerusform></translation></message>"
    '<message><source>d</source><translation type="vanished">e</translation></message></context></TS>'
)
PO = (
    'msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n'
    'Language: en\\n"\n\n#, fuzzy\nmsgctxt "c"\n'
    'msgid "ein"\nmsgstr "o\\\\ne\\x41\\101"\n\nmsgid "Haus"\nmsgid_plural "H"\n"user"\nmsgstr[0] "house"\n'
    'msgstr[1] "houses"\n\n#~ msgid "zwei"\n#~ msgstr "two"\n'
)
SRT = "1\n00:00:01,000 --> 00:00:02,000\n<i>ein\nHaus</i>\n\n2\n00:01:01,000 --> 00:01:02,000\nzwei\n"
LINKS = "0-0 1-2 2p1\n\n3?3 1-1\n"


def parquet() -> bytes:
    table = pa.table(
        {
            "source": ["ein Haus", "zwei", None],
            "target": ["a house", "two", "é"],
            "translation": [{"en": "a", "de": "b"}] * 3,
            "when": pa.array([1, 2, 3], pa.timestamp("us")),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def mo() -> bytes:
    texts = [(b"", b"Content-Type: text/plain; charset=UTF-8\n"), (b"a\0b", b"c\0d"), (b"ein", b"one")]
    start, body = 28 + 16 * len(texts), b""
    tables: list[list[tuple[int, int]]] = [[], []]
    for side in (0, 1):
        for pair in texts:
            tables[side].append((len(pair[side]), start + len(body)))
            body += pair[side] + b"\0"
    places = b"".join(struct.pack("<2I", *place) for table in tables for place in table)
    head = struct.pack("<7I", 0x950412DE, 0, len(texts), 28, 28 + 8 * len(texts), 0, 0)
    return head + places + body


def arrow(*, new: Callable[..., Any]) -> bytes:
    columns = {"source": ["ein Haus", "zwei", None], "target": ["a house", "two", "é"], "n": [1, 2, 3]}
    content, out = pa.table(columns), io.BytesIO()
    with new(out, content.schema) as writer:
        writer.write_table(content)
    return out.getvalue()


def workbook() -> bytes:
    book, out = openpyxl.Workbook(), io.BytesIO()
    for row in (("source", "target"), ("ein Haus", "a house"), ("zwei", 2)):
        book.active.append(row)
    book.save(out)
    return out.getvalue()


def archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in {
            "a.tmx": TMX,
            "x/a.po": PO,
            "b.de": "a",
            "b.en": "b",
            "c.tsv": TSV,
            "d": "e",
        }.items():
            packed.writestr(name, text)
    return out.getvalue()


def wav(*, rate: int = 8000, width: int = 2, channels: int = 1) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(bytes(range(200)) * 6)
    return out.getvalue()


def npy(*, version: tuple[int, int] = (1, 0)) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.arange(12, dtype=np.float32).reshape(4, 3), version=version)
    return out.getvalue()


def npz(*, packed: bool) -> bytes:
    out = io.BytesIO()
    save = np.savez_compressed if packed else np.savez
    save(out, a=np.arange(12.0).reshape(4, 3), b=np.ones((2, 3)))
    return out.getvalue()


def checked(examples: Iterable[Example]) -> None:
    """Check that all examples are text that can be written."""
    for example in examples:
        for text in (example.source, example.target or "", *example.columns, *example.columns.values()):
            text.encode()
        if example.heads is not None:
            assert len(example.heads) == len(example.source.split())


def table(**columns: Any) -> Read:
    """Return a reader of pairs that checks that kept and dropped lines add up to the total."""

    def read(path: Path) -> None:
        report = DataReport()
        options = {"source_column": "1", "target_column": "2", **columns}
        examples = list(readers.read(str(path), report=report, **options))
        checked(examples)
        assert len(examples) == report.kept
        report.save(path.with_suffix(".report"))
        assert DataReport.load(path.with_suffix(".report")) == report

    return read


def units() -> Read:
    """Return a reader of translation units from German to English."""
    return table(source_column=None, target_column=None, languages=LanguagePair("de", "en"))


def sources(**columns: Any) -> Read:
    """Return a reader of sources to translate that checks that no line is lost."""

    def read(path: Path) -> None:
        report = DataReport()
        examples = list(readers.read_source(str(path), report=report, **{"source_column": "1", **columns}))
        checked(examples)
        assert len(examples) == report.total

    return read


def parallel(path: Path) -> None:
    other = path.with_name("other.txt")
    other.write_text("a\nb\n")
    checked(readers.read_parallel(str(path), str(other), DataReport()))


def subtitles(path: Path) -> None:
    other = path.with_name("other.vtt")
    other.write_text("WEBVTT\n\n00:01.500 --> 00:03.000\na house\n")
    checked(readers.read_parallel(str(path), str(other), DataReport()))


def features(line: str = "") -> Read:
    def read(path: Path) -> None:
        frames = read_features(f"{path}{line}").frames
        assert frames.ndim == 2 and frames.dtype == np.float32 and np.isfinite(frames).all()

    return read


def arpa(path: Path) -> None:
    model = read_arpa(path)
    assemble(model.orders, str(path))


def links(path: Path) -> None:
    for line in lines(str(path)):
        parse_links(line)


# name → (file, valid contents, reader)
READERS: dict[str, tuple[str, list[bytes], Read]] = {
    "tsv": ("a.tsv", [TSV.encode(), b"a\tb\nc\td\n"], table()),
    "tsv by name": ("a.tsv", [TSV.encode()], table(source_column="source", target_column="target")),
    "tsv with heads": ("a.tsv", [TSV.encode()], table(target_column="none", heads_column="heads")),
    "tsv packed": ("a.tsv.gz", [gzip.compress(TSV.encode())], table()),
    "csv": ("a.csv", [CSV.encode()], table()),
    "csv by name": ("a.csv", [CSV.encode()], table(source_column="source", target_column="target,more")),
    "jsonl": ("a.jsonl", [JSONL.encode()], table()),
    "jsonl inside": ("a.jsonl", [JSONL.encode()], table(target_column="translation.en")),
    "parquet": ("a.parquet", [parquet()], table()),
    "parquet inside": ("a.parquet", [parquet()], table(target_column="translation.en")),
    "tmx": ("a.tmx", [TMX.encode()], units()),
    "xliff": ("a.xlf", [XLIFF.encode(), XLIFF2.encode()], units()),
    "ts": ("a.ts", [QT.encode()], units()),
    "po": ("a.po", [PO.encode()], units()),
    "mo": ("a.mo", [mo()], units()),
    "arrow": ("a.arrow", [arrow(new=pa.ipc.new_stream), arrow(new=pa.ipc.new_file)], table()),
    "xlsx": ("a.xlsx", [workbook()], table()),
    "zip": ("a.zip", [archive()], units()),
    "subtitles": ("a.srt", [SRT.encode()], subtitles),
    "sources of units": ("a.po", [PO.encode()], sources(source_column=None)),
    "text": ("a.txt", [b"ein Haus\nzwei\n"], sources()),
    "text packed": ("a.gz", [gzip.compress(b"ein Haus\nzwei\n")], sources()),
    "conllu": ("a.conllu", [CONLLU.encode()], sources()),
    "sources of a table": ("a.tsv", [TSV.encode()], sources(prefix_column="2", heads_column="3")),
    "sources of JSON": ("a.jsonl", [JSONL.encode()], sources(prefix_column="target", require_column="source")),
    "aligned files": ("a.txt", [b"ein Haus\nzwei\n"], parallel),
    "wav": ("a.wav", [wav(), wav(width=1), wav(width=3, channels=2), wav(rate=16000)], features()),
    "npy": ("a.npy", [npy(), npy(version=(2, 0)), npy(version=(3, 0))], features()),
    "npz": ("a.npz", [npz(packed=True), npz(packed=False)], features("#a")),
    "arpa": ("a.arpa", [ARPA.encode()], arpa),
    "arpa packed": ("a.arpa.gz", [gzip.compress(ARPA.encode())], arpa),
    "links": ("a.links", [LINKS.encode()], links),
    "gold links": ("a.gold", [LINKS.encode()], lambda path: read_gold(path, 0)),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_data(name: str, tmp_path: Path, fuzz: Any, damage: Any) -> None:
    file, valid, read = READERS[name]

    def check(content: bytes) -> None:
        (tmp_path / file).write_bytes(content)
        read(tmp_path / file)

    for content in valid:
        check(content)  # a valid file must not raise
    fuzz(damage(*valid), check)


@pytest.mark.parametrize("name", ["jsonl", "jsonl inside"])
def test_json_of_another_shape(name: str, tmp_path: Path, fuzz: Any, reshape: Any) -> None:
    _, _, read = READERS[name]

    def check(rows: Any) -> None:
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows if row), "utf-8")
        read(tmp_path / "a.jsonl")

    rows = [json.loads(line) for line in JSONL.splitlines()]
    fuzz(reshape(rows).filter(lambda value: isinstance(value, list)), check)


@pytest.mark.parametrize("column", ["0", "9" * 5000, "²", "٣", "-1", "", "a.b", "\x00"])
@pytest.mark.parametrize("name", ["tsv", "csv", "jsonl", "parquet"])
def test_any_column(name: str, column: str, tmp_path: Path) -> None:
    file, (content, *_), _ = READERS[name]
    (tmp_path / file).write_bytes(content)
    for columns in ({"source_column": column}, {"target_column": column}):
        with suppress(SeqloomError):
            table(**columns)(tmp_path / file)
