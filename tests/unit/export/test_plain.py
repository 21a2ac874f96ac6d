"""An exported folder works with the code in its README, which uses only SentencePiece and CTranslate2."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.errors import SeqloomError
from seqloom.export.ctranslate2 import plain as ctranslate2_plain
from seqloom.export.ctranslate2.export import export_ctranslate2, load_exported
from seqloom.export.marian.export import export_marian
from seqloom.export.marian.load import import_marian
from seqloom.run.directory import Run
from seqloom.run.load import load
from support.configs import TINY_TRANSFORMER
from support.golden import GOLDEN, golden_run
from support.runs import train_run, write_lines

pytest.importorskip("ctranslate2")

NOUNS = {"Haus": "house", "Café": "café", "Hund": "dog", "Straße": "street", "Fluß": "river"}
ADJECTIVES = {"alte": "old", "schöne": "nice", "große": "big", "kleine": "small"}
PAIRS = [
    (f"Das {a} {n} am {m}.", f"The {b} {o} by the {p}.")
    for n, o in NOUNS.items()
    for a, b in ADJECTIVES.items()
    for m, p in NOUNS.items()
]
LINES = [
    *(source for source, _ in PAIRS[::7]),
    "",
    "  Das   alte Haus am\u00a0Fluß.  ",
    "Das scho\u0308ne Cafe\u0301 am Fluß.",  # decomposed: NFC makes one character of two
    "DAS ALTE HAUS",
    "ein ganz anderer Satz, 数字 🙂",
]
SETTINGS: dict[str, Any] = {
    **TINY_TRANSFORMER,
    "model.name": "transformer-postnorm",
    "model.width": 32,
    "model.ffn": 32,
    "text.vocab_size": 360,
    "data.valid_share": 0.1,
    "train.max_steps": 60,
    "train.threads": 1,
    "train.learning_rate": 0.01,
    "train.warmup": 10,
}
KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "separate": {"text.joint": False, "text.target_tokenizer": "bpe", "search.length_penalty": 0.0},
    "word": {"text.tokenizer": "word"},
    "char": {"text.tokenizer": "char", "text.byte_fallback": False, "text.normalize": "nfkc"},
    "lower": {"text.lowercase": True, "search.beam": 1},
    "code": {"text.preset": "code"},
    "tags": {"text.lowercase": True, "text.tags": ["<2de>", "<2DE>"], "search.stop": "ahead"},
}
Make = Callable[[str], Run]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Return a function that trains a run with the given text options, once."""
    made: dict[str, Run] = {}

    def train(kind: str) -> Run:
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            table = write_lines(folder / "pairs.tsv", (f"{a}\t{b}" for a, b in PAIRS))
            made[kind] = train_run(folder / "run", table, {**SETTINGS, **KINDS[kind]})
        return made[kind]

    return train


def blocks(folder: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def run_readme(folder: Path, lines: list[str]) -> list[str]:
    """Return the outputs of the README's code for these lines, run in the folder as written."""
    example, code = blocks(folder)
    variables: dict[str, Any] = {}
    before = Path.cwd()
    os.chdir(folder)
    try:
        exec(example, variables)
        assert variables["folder"] == "." and variables["lines"]
        variables["lines"] = lines
        exec(code, variables)
    finally:
        os.chdir(before)
    assert "seqloom" not in code
    outputs: list[str] = variables["outputs"]
    return outputs


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"tags"}))
def test_the_code_of_the_readme_translates_like_the_run(kind: str, make: Make, tmp_path: Path) -> None:
    run = make(kind)
    report = export_ctranslate2(run.folder, tmp_path / "model")
    plain = report["verified"]["plain"]
    assert plain["equal"] == plain["sentences"] > 0
    best = [found[0] for found in load(run.folder).translate(LINES, nbest=1)]
    assert len({one.text for one in best}) > 5, "trained enough to say different things"
    outputs = run_readme(tmp_path / "model", LINES)
    assert [text for text, one in zip(outputs, best, strict=True) if one.finished] == [
        one.text for one in best if one.finished
    ]
    again = load_exported(tmp_path / "model").translate(LINES, nbest=1)
    assert [found[0].text for found in again] == [one.text for one in best]


def test_a_few_different_outputs_of_plain_ctranslate2_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A model that is not well trained proposes PAD or BOS, which take a slot in the beam of CTranslate2."""
    monkeypatch.chdir(GOLDEN)
    report = export_ctranslate2(golden_run("transformer"), tmp_path / "model")
    plain = report["verified"]["plain"]
    assert 0.95 * plain["sentences"] < plain["equal"] < plain["sentences"]
    assert plain["first_other"]["ours"] != plain["first_other"]["theirs"]


def test_the_code_of_the_readme_translates_like_an_int8_export(make: Make, tmp_path: Path) -> None:
    export_ctranslate2(make("default").folder, tmp_path / "int8", quantization="int8")
    best = [found[0] for found in load_exported(tmp_path / "int8").translate(LINES, nbest=1)]
    for output, one in zip(run_readme(tmp_path / "int8", LINES), best, strict=True):
        assert output == one.text or not one.finished


def test_an_imported_marian_model_with_languages(make: Make, tmp_path: Path) -> None:
    export_marian(make("default").folder, tmp_path / "marian", LINES[:5])
    vocabulary = json.loads((tmp_path / "marian/vocab.json").read_text())
    word = next(piece for piece, id in vocabulary.items() if id == 300)
    vocabulary[">>eng<<"] = vocabulary.pop(word)
    (tmp_path / "marian/vocab.json").write_text(json.dumps(vocabulary))
    run = import_marian(tmp_path / "marian", tmp_path / "run").run
    (tmp_path / "lines.txt").write_text("".join(f">>eng<< {line}\n{line}\n" for line in LINES[:20]))
    export_ctranslate2(run.folder, tmp_path / "model", verify=str(tmp_path / "lines.txt"))
    lines = [*LINES[:5], *(f">>eng<< {line}" for line in LINES[:5]), ">>xyz<< Das", ">>", ""]
    ours = [found[0] for found in load(run.folder).translate(lines)]
    for output, one in zip(run_readme(tmp_path / "model", lines), ours, strict=True):
        assert output == one.text or not one.finished


def test_a_readme_may_be_edited(make: Make, tmp_path: Path) -> None:
    export_ctranslate2(make("default").folder, tmp_path / "model")
    (tmp_path / "model/README.md").write_text("mine")
    assert load_exported(tmp_path / "model").translate(["Das alte Haus"])


def test_an_export_that_plain_code_translates_differently_is_refused(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ctranslate2_plain.normalized
    monkeypatch.setattr(ctranslate2_plain, "normalized", lambda tokenizer: f"{right(tokenizer)}[::-1]")
    with pytest.raises(SeqloomError, match=r"Plain SentencePiece encodes the line .* differently"):
        export_ctranslate2(make("default").folder, tmp_path / "model")
    monkeypatch.setattr(ctranslate2_plain, "normalized", right)
    monkeypatch.setattr(ctranslate2_plain, "denormalized", lambda tokenizer, output: f"{output}[::-1]")
    with pytest.raises(SeqloomError, match=r"Plain CTranslate2 translates \d+ of \d+ sentences differently"):
        export_ctranslate2(make("default").folder, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_readme_whose_code_fails_is_refused(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctranslate2_plain, "normalized", lambda tokenizer: "no_such_name")
    with pytest.raises(SeqloomError, match=r"code in the exported README.md fails: .*no_such_name") as error:
        export_ctranslate2(make("default").folder, tmp_path / "model")
    assert "import ctranslate2" in error.value.hint
    assert list(tmp_path.iterdir()) == []


def test_limits_of_the_plain_code_are_reported(make: Make, tmp_path: Path) -> None:
    run = make("tags")
    report = export_ctranslate2(run.folder, tmp_path / "model")
    tags, stop = report["notes"]
    assert "<2DE>" in tags and "<2de>" not in tags
    assert "search.stop=ahead" in stop
    readme = (tmp_path / "model/README.md").read_text(encoding="utf-8")
    assert all(note in readme for note in (tags, stop, "[MASK]"))
