"""Zip archives and folders of data files, and subtitles in two languages."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import srt

from seqloom.data import readers
from seqloom.data.config import DataConfig
from seqloom.data.readers import read_corpus
from seqloom.data.report import DataReport
from seqloom.data.units.subtitles import read_cues
from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair

EN_DE = LanguagePair("en", "de")
PO = 'msgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgstr ""\n'
TMX = (
    '<tmx><header/><body><tu><tuv xml:lang="en"><seg>d</seg></tuv><tuv xml:lang="de"><seg>e</seg></tuv></tu>'
    "</body></tmx>"
)
FILES = {
    "locale/de/LC_MESSAGES/x.po": PO,
    "locale/fr/LC_MESSAGES/x.po": PO,
    "memory.tmx": TMX,
    "pairs.tsv": "f\tg\n",
    "Books.de-en.en": "h\ni\n",
    "Books.de-en.de": "j\nk\n",
    "README": "a text\n",
    "__MACOSX/._memory.tmx": "junk",
}
EXPECTED = [("h", "j"), ("i", "k"), ("a", "b"), ("d", "e"), ("f", "g")]
SKIPPED = {"file of another format": 1, "file in other languages": 2, "untranslated unit": 1}


def pack(path: Path, files: dict[str, str]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return str(path)


def test_an_archive_of_files_in_many_formats(tmp_path: Path) -> None:
    path, report = pack(tmp_path / "a.zip", FILES), DataReport()
    examples = list(readers.read(path, languages=EN_DE, report=report))
    assert [(e.source, e.target) for e in examples] == EXPECTED
    assert dict(report.counts) == SKIPPED
    assert {(line.file, line.line) for line in report.lines} >= {
        (f"{path}/locale/de/LC_MESSAGES/x.po", 4),
        (f"{path}/README", 0),
    }
    assert examples[0].file == f"{path}/Books.de-en.en"


def test_a_folder_has_the_same_files(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    for name, text in FILES.items():
        if "/" not in name:
            (folder / name).write_text(text)
    pack(folder / "more.zip", {name: text for name, text in FILES.items() if "/" in name})
    config = DataConfig.model_validate({"train": str(folder), "languages": "en-de"})
    pairs = {(e.source, e.target) for e in read_corpus(config, "train", DataReport())}
    assert pairs == set(EXPECTED)


def test_sources_to_translate_in_an_archive(tmp_path: Path) -> None:
    path, report = pack(tmp_path / "a.zip", FILES), DataReport()
    with pytest.raises(SeqloomError, match="cannot be translated"):
        list(readers.read_source(path, report=report))


def cues(*times: tuple[int, int], text: str) -> str:
    made = [
        srt.Subtitle(i, srt.timedelta(seconds=start), srt.timedelta(seconds=end), f"<i>{text}\n{i}</i>")
        for i, (start, end) in enumerate(times, 1)
    ]
    return srt.compose(made)


def test_subtitles_are_aligned_by_time(tmp_path: Path) -> None:
    left = cues((1, 3), (4, 6), (6, 8), (20, 22), (30, 34), text="en")
    right = cues((1, 3), (4, 8), (10, 12), (30, 32), (32, 34), (50, 51), text="de")
    (tmp_path / "a.en.srt").write_text(left)
    (tmp_path / "a.de.vtt").write_text("WEBVTT\n\n" + right.replace(",", "."))
    report = DataReport()
    found = readers.read_parallel(str(tmp_path / "a.en.srt"), str(tmp_path / "a.de.vtt"), report)
    assert [(e.source, e.target) for e in found] == [
        ("en 1", "de 1"),
        ("en 2 en 3", "de 2"),
        ("en 5", "de 4 de 5"),
    ]
    assert dict(report.counts) == {
        "subtitle without one at the same time": 1,
        "target subtitle without one at the same time": 2,
    }
    assert report.total == 6
    assert [line.line for line in report.lines] == [14, 17, 29]
    path = pack(tmp_path / "a.zip", {"x/a.en.srt": left, "x/a.de.srt": right})
    assert len(list(readers.read(path, languages=EN_DE, report=DataReport()))) == 3


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.tsv", b"a" * (1 << 20))
        archive.infolist()[0].file_size = 1 << 40


def outside(name: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        pack(path, {name: "a\tb\n"})

    return write


def truncated(path: Path) -> None:
    pack(path, {"a.tsv": "a\tb\n" * 1000})
    path.write_bytes(path.read_bytes()[:-30])


def corrupt(path: Path) -> None:
    pack(path, {"a.tsv": "".join(f"{i}\tb\n" for i in range(1000))})
    data = bytearray(path.read_bytes())
    data[60:90] = bytes(30)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "write, message",
    [
        (bomb, "would unpack to"),
        (outside("../a.tsv"), "unsafe path"),
        (outside("/etc/a.tsv"), "unsafe path"),
        (outside("x\\..\\a.tsv"), "unsafe path"),
        (truncated, "not a zip archive"),
        (corrupt, "cannot be read"),
        (lambda path: path.write_bytes(b""), "not a zip archive"),
    ],
    ids=["bomb", "parent", "absolute", "backslash", "truncated", "corrupt", "empty"],
)
def test_hostile_archives(write: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    write(inside / "a.zip")
    with pytest.raises(SeqloomError, match=message):
        list(readers.read(str(inside / "a.zip"), report=DataReport()))
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


def test_an_archive_in_an_archive_is_skipped(tmp_path: Path) -> None:
    inner = io.BytesIO()
    zipfile.ZipFile(inner, "w").close()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("b.zip", inner.getvalue())
    report = DataReport()
    assert list(readers.read(str(tmp_path / "a.zip"), report=report)) == []
    assert dict(report.counts) == {"file of another format": 1}


def test_files_without_a_partner_in_an_archive_are_skipped(tmp_path: Path) -> None:
    path, report = pack(tmp_path / "a.zip", {"a.en.srt": "", "b.de.srt": "", "c.txt": "a\tb\n"}), DataReport()
    assert list(readers.read(path, languages=EN_DE, report=report)) == []
    assert dict(report.counts) == {"file of another format": 3}


def test_entities_of_webvtt_are_decoded(tmp_path: Path) -> None:
    cue = "00:01.000 --> 00:02.000\n<v A>x &lt; y &amp;amp; z\n"
    (tmp_path / "a.vtt").write_text(f"WEBVTT\n\n{cue}")
    (tmp_path / "a.srt").write_text(cue)
    found = [one.text for name in ("a.vtt", "a.srt") for one in read_cues(str(tmp_path / name))]
    assert found == ["x < y &amp; z", "x &lt; y &amp;amp; z"]
