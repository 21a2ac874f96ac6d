"""Export of n-gram runs to ARPA files and back, also from the command line."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from seqloom.errors import SeqloomError
from seqloom.export.arpa import export_arpa, import_arpa, word_names
from seqloom.run.build import load_fitted
from seqloom.run.config import compose
from seqloom.run.directory import Run
from seqloom.run.train import continue_run, create
from seqloom.statistical.ngram.model import NgramModel
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import BOS, PAD, UNK
from support.commands import run_command

PAGE = Path(__file__).parents[3] / "docs" / "ladder" / "n-grams.md"
LINES = ["a b c", "a b", "b c a b", "<s> <unk> c", "a a b c", "b b c", "x\u00a0y a▁b"] * 4


def created(folder: Path, **values: Any) -> Run:
    (folder / "text.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    given = {"data.train": str(folder / "text.txt"), "data.format": "text", "train.threads": 1}
    named = {key.replace("__", "."): value for key, value in values.items()}
    return create(compose(values={"model.name": "ngram", **given, **named}), folder / "run", quiet=True)


def trained(folder: Path, **values: Any) -> Path:
    run = created(folder, model__order=3, **values)
    continue_run(run, quiet=True)
    return run.folder


def score(run: Path, text: str) -> list[float]:
    model, tokenizers = load_fitted(Run.open(run))
    assert isinstance(model, NgramModel)
    return model.ngrams.score(tokenizers.target.encode(text))


@pytest.mark.parametrize("kind", ["unigram", "char", "word"])
def test_a_round_trip_with_the_same_tokenizer(tmp_path: Path, kind: str) -> None:
    run = trained(tmp_path, text__tokenizer=kind)
    exported = export_arpa(run, tmp_path / "x.arpa")
    assert exported.difference < 1e-6
    imported = import_arpa(tmp_path / "x.arpa", tmp_path / "back", tokenizer=run)
    assert imported.notes == [] and imported.ngrams.order == 3
    for line in [*LINES[:7], "c b z"]:
        assert score(tmp_path / "back", line) == pytest.approx(score(run, line), rel=1e-5)


def test_a_file_of_words_needs_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "x.arpa").write_text(
        "\\data\\\nngram 1=5\nngram 2=2\n\n\\1-grams:\n-99 <s> -0.5\n-0.5 Straße -0.25\n-1 </s>\n-2 <unk>\n"
        f"-3 {'w' * 90}\n\n\\2-grams:\n-0.3 <s> Straße\n-0.4 Straße </s>\n\n\\end\\\n",
        encoding="utf-8",
    )
    assert import_arpa(tmp_path / "x.arpa", tmp_path / "run").notes == []
    log10 = 2.302585
    assert score(tmp_path / "run", "Straße") == pytest.approx([-0.3 * log10, -0.4 * log10], rel=1e-6)
    assert score(tmp_path / "run", f"nie {'w' * 90}") == pytest.approx(
        [-2.5 * log10, -3 * log10, -1 * log10], rel=1e-6
    )


def test_pieces_missing_from_the_file_share_the_unknown_probability(tmp_path: Path) -> None:
    run = trained(tmp_path, text__tokenizer="word", text__byte_fallback=False)
    (tmp_path / "x.arpa").write_text(
        "\\data\\\nngram 1=4\n\n\\1-grams:\n-99 <s>\n-0.5 a\n-1 </s>\n-0.3 <unk>\n\n\\end\\\n"
    )
    imported = import_arpa(tmp_path / "x.arpa", tmp_path / "back", tokenizer=run)
    lacking = imported.ngrams.vocabulary - 5  # besides PAD, BOS, EOS, UNK and a
    assert imported.notes == [f"{lacking} pieces missing from the file share the probability of <unk>"]
    probs = 10 ** (imported.ngrams.log_probs([()])[0] / 2.302585)
    assert probs[UNK] == pytest.approx(10**-0.3 / (lacking + 1)) and probs[PAD] == probs[BOS] == 0
    assert probs.sum() == pytest.approx(10**-0.5 + 10**-1 + 10**-0.3)


def test_words_outside_the_vocabulary_are_refused(tmp_path: Path) -> None:
    run = trained(tmp_path)
    export_arpa(run, tmp_path / "x.arpa.gz")
    with pytest.raises(
        SeqloomError, match=r"The word '▁.*' in .* is not in the vocabulary of the new run's tokenizer"
    ):
        import_arpa(tmp_path / "x.arpa.gz", tmp_path / "back")
    assert not (tmp_path / "back").exists()


@dataclass
class Pieces:
    """The part of a tokenizer that has names."""

    names: list[str]

    @property
    def size(self) -> int:
        return len(self.names)

    def pieces(self, ids: range) -> list[str]:
        return [self.names[id] for id in ids]


def test_every_id_has_a_unique_word() -> None:
    odd = ["a b", "a\x0bb", "", "▁", "<s>", "x\u00a0", "a\x00", "a", "a", "a#11", "\u2028"]
    names = word_names(cast(Tokenizer, Pieces(["<pad>", "<s>", "</s>", "<unk>", *odd])))
    assert len(set(names)) == len(names) and all(name.split() == [name] for name in names)
    assert names[BOS : UNK + 1] == ["<s>", "</s>", "<unk>"]
    assert names[4:9] == ["a<U+0020>b", "a<U+000B>b", "#6", "▁", "<s>#8"]


def test_other_models_and_existing_folders_are_refused(tmp_path: Path) -> None:
    run = trained(tmp_path)
    export_arpa(run, tmp_path / "x.arpa")
    with pytest.raises(SeqloomError, match="already exists and is not empty"):
        import_arpa(tmp_path / "x.arpa", run)
    with pytest.raises(SeqloomError, match="no folder"):
        export_arpa(run, tmp_path / "nowhere" / "x.arpa")
    (tmp_path / "file").write_text("")
    with pytest.raises(SeqloomError, match="cannot be written"):
        import_arpa(tmp_path / "x.arpa", tmp_path / "file" / "run", tokenizer=run)


def test_a_neural_run_is_refused(tmp_path: Path) -> None:
    run = created(tmp_path, model__name="lm", model__size="tiny")
    with pytest.raises(SeqloomError, match="is not an n-gram model"):
        export_arpa(run.folder, tmp_path / "x.arpa")
    assert not (tmp_path / "x.arpa").exists()


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("text.txt", "test.txt"):
        Path(name).write_text("\n".join([*LINES, "a man in a blue shirt"]) + "\n", encoding="utf-8")
    (block,) = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    said = []
    for line in block.splitlines():
        done = run_command(*shlex.split(line)[1:])
        assert done.code == 0, f"{line}\n{done.err}"
        said.append(done.out)
    assert "perplexity" in said[2] and len(said[3].splitlines()) == 3
    assert re.match(
        r"exported: words.arpa.gz \(\d+ \+ \d+ \+ \d+ \+ \d+ n-grams\), compared with the run\n", said[4]
    )
    assert said[5].startswith("imported: runs/back (") and "seqloom score runs/back FILE" in said[5]
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(code)
