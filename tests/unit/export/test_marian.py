"""Marian folders: import, export and errors. tests/oracle checks that the numbers are Marian's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from seqloom.errors import SeqloomError
from seqloom.export.marian import export as marian_export
from seqloom.export.marian.export import export_marian
from seqloom.export.marian.load import import_marian
from seqloom.export.marian.weights import alternating, blocks_from_marian, blocks_to_marian
from seqloom.inspect.facts import describe
from seqloom.nn.positions import sinusoids
from seqloom.run.build import build_model, load_model
from seqloom.run.config import compose
from seqloom.run.directory import Run
from seqloom.run.load import load, load_scorer
from seqloom.run.train import continue_run, create
from seqloom.text.pair import TokenizerPair
from seqloom.training.checkpoint import TrainState, weights_of
from support.configs import TINY_TRANSFORMER

PAIRS = [("the cat sat", "die Katze saß"), ("a dog ran", "ein Hund lief"), ("the dog sat", "der Hund saß")] * 3
LINES = [source for source, _ in PAIRS[:3]]


def make_run(folder: Path, **options: Any) -> Path:
    """Create a run with random weights; only the tokenizer is trained."""
    values = {
        **TINY_TRANSFORMER,
        "model.name": "transformer-postnorm",
        "model.ffn": 20,
        "model.decoder_layers": 2,
        "text.vocab_size": 300,
        "search.max_length_extra": 5,
        **options,
    }
    config = compose(None, values)
    tokenizers = TokenizerPair.train(config.text, lambda: PAIRS)
    model = build_model(config, tokenizers)
    torch.nn.init.normal_(model.output.bias)  # type: ignore[union-attr, arg-type]
    run = Run(folder)
    folder.mkdir()
    run.config_file.write_text(config.to_yaml(), encoding="utf-8")
    tokenizers.save(run.tokenizer_folder)
    run.checkpoints().save(weights_of(model), {}, TrainState(best_step=0))
    return folder


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "ours")


@pytest.fixture(scope="module")
def marian(ours: Path) -> Path:
    export_marian(ours, ours.parent / "marian", LINES)
    return ours.parent / "marian"


@pytest.fixture
def copy(marian: Path, tmp_path: Path) -> Path:
    """Marian folder that a test may modify."""
    shutil.copytree(marian, tmp_path / "copy")
    return tmp_path / "copy"


def change(path: Path, **values: Any) -> None:
    """Set keys of a JSON object; None removes a key."""
    tree = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in tree.items() if value is not None}))


def test_sines_and_cosines_are_separate_in_marian_and_alternate_in_seqloom() -> None:
    ours = sinusoids(torch.arange(9), 6)
    angles = torch.arange(9).unsqueeze(1) / 10_000 ** (torch.arange(0, 6, 2) / 6)
    theirs = torch.cat((angles.sin(), angles.cos()), dim=1)
    torch.testing.assert_close(theirs[:, alternating(6)], ours)
    torch.testing.assert_close(ours[:, alternating(6).argsort()], theirs)


def test_a_round_trip_of_the_weights(ours: Path) -> None:
    model, _ = load_model(Run.open(ours))
    there = blocks_to_marian(model.state_dict(), (1, 2), 16)
    assert there["model.decoder.layers.1.encoder_attn.v_proj.weight"].shape == (16, 16)
    back = blocks_from_marian(there, (1, 2), 16)
    assert set(back) == {name for name in model.state_dict() if name.startswith(("encoder.", "decoder."))}
    for name, weight in back.items():
        assert torch.equal(weight, model.state_dict()[name]), name


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"text.joint": False, "text.tokenizer": "char", "text.target_tokenizer": "bpe"},
        {"model.tie": "target", "model.activation": "silu"},
        {"model.tie": "none", "model.activation": "gelu"},
        {"search.max_length_factor": 0, "search.length_penalty": 0.6},
    ],
    ids=["joint", "separate", "tied target", "untied", "search"],
)
def test_a_round_trip_of_a_run(options: dict[str, Any], tmp_path: Path) -> None:
    run = make_run(tmp_path / "ours", **options)
    report = export_marian(run, tmp_path / "marian", LINES)
    assert (report.sentences, report.difference) == (3, 0.0)
    imported = import_marian(tmp_path / "marian", tmp_path / "again")
    assert imported.notes == []
    one, two = load(run, device="cpu"), load(tmp_path / "again", device="cpu")
    for name, weight in one.model.state_dict().items():  # type: ignore[attr-defined]
        assert torch.equal(weight, two.model.state_dict()[name]), name  # type: ignore[attr-defined]
    limits = ("search.max_length_factor" in options and ("max_length_extra", "max_length_factor")) or ()
    for name in ("beam", "length_penalty", *limits):
        assert getattr(one.search, name) == getattr(two.search, name)
    assert one.tokenizers.joint == two.tokenizers.joint


def test_sentences_of_the_run_are_compared_if_none_are_given(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in [*PAIRS, (">>x<< a", "b")]))
    run = make_run(tmp_path / "ours", **{"data.train": str(tmp_path / "pairs.tsv")})
    assert export_marian(run, tmp_path / "marian").sentences == len(PAIRS), "without the one that has a code"


def test_languages_are_exported_and_imported(copy: Path, tmp_path: Path) -> None:
    assert import_marian(copy, tmp_path / "none").run.config().data.languages is None
    change(copy / "tokenizer_config.json", source_lang="en", target_lang="ROMANCE")
    assert import_marian(copy, tmp_path / "several").run.config().data.languages is None
    run = make_run(tmp_path / "ours", **{"data.languages": "en-de"})
    export_marian(run, tmp_path / "marian", LINES)
    options = json.loads((tmp_path / "marian" / "tokenizer_config.json").read_text())
    assert (options["source_lang"], options["target_lang"]) == ("en", "de")
    assert import_marian(tmp_path / "marian", tmp_path / "again").run.config().data.languages == ("en", "de")


def test_an_imported_run_can_be_used_like_any_other(copy: Path, tmp_path: Path) -> None:
    change(copy / "generation_config.json", max_length=12)
    run = import_marian(copy, tmp_path / "run").run
    facts = describe(run)
    assert (facts["steps"], facts["joint_vocabulary"]) == (0, True)
    assert facts["model"]["norm_place"] == "after"
    answers = load(run.folder, device="cpu").translate(LINES, beam=3, nbest=2)
    assert [len(answer) for answer in answers] == [2, 2, 2]
    scores = list(load_scorer(run.folder, device="cpu").score(PAIRS[:2]))
    assert len(scores) == 2


def test_an_imported_run_can_be_fine_tuned(marian: Path, tmp_path: Path) -> None:
    run = import_marian(marian, tmp_path / "run").run
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    values = {
        "data.train": str(tmp_path / "pairs.tsv"),
        "train.init_from": str(run.folder),
        "train.max_steps": 3,
        "train.learning_rate": 0.01,
        "train.warmup": 0,
    }
    tuned = create(compose(run.config_file, values), tmp_path / "tuned", quiet=True)
    warm = json.loads((tuned.folder / "warm-start.json").read_text())
    assert (warm["fresh"], warm["other_shape"], warm["unused"]) == ([], {}, {})
    assert load_file(tuned.initial_file).keys() == load_file(run.weights()).keys()
    continue_run(tuned, quiet=True)
    before, after = load_scorer(run.folder, device="cpu"), load_scorer(tuned.folder, device="cpu")
    total = [sum(sum(score.log_probs) for score in scorer.score(PAIRS[:3])) for scorer in (before, after)]
    assert total[1] > total[0] + 1
    assert tuned.tokenizers().fingerprint == run.tokenizers().fingerprint


def test_an_imported_run_has_nothing_to_resume(marian: Path, tmp_path: Path) -> None:
    run = import_marian(marian, tmp_path / "run").run
    with pytest.raises(SeqloomError, match=r"run was imported.* no training to continue") as caught:
        continue_run(run, quiet=True)
    assert f"--init-from {run.folder}" in caught.value.hint


def test_weights_of_half_precision_and_any_name_of_a_shared_matrix_are_read(copy: Path, tmp_path: Path) -> None:
    weights = load_file(copy / "model.safetensors")
    weights["lm_head.weight"] = weights.pop("model.shared.weight")
    weights["model.encoder.embed_positions.weight"] = torch.zeros(9, 16)  # as older versions saved it
    save_file({name: weight.half() for name, weight in weights.items()}, copy / "model.safetensors")
    model, _ = load_model(import_marian(copy, tmp_path / "run").run)
    torch.testing.assert_close(
        model.state_dict()["output.bias"], weights["final_logits_bias"][0], atol=1e-3, rtol=0
    )


def test_search_options_are_imported_or_reported(copy: Path, tmp_path: Path) -> None:
    change(copy / "generation_config.json", num_beams=6, max_length=100, length_penalty=0.5)
    change(copy / "generation_config.json", no_repeat_ngram_size=3, early_stopping="never", do_sample=False)
    imported = import_marian(copy, tmp_path / "run")
    search = imported.run.config().search
    assert (search.beam, search.length_penalty, search.max_length(7)) == (6, 0.5, 99)
    assert [note.split(" is ")[0] for note in imported.notes] == [
        "early_stopping = never",
        "no_repeat_ngram_size = 3",
    ]


def test_an_id_without_a_piece_gets_a_visible_name(copy: Path, tmp_path: Path) -> None:
    size = json.loads((copy / "config.json").read_text())["vocab_size"]
    ids = json.loads((copy / "vocab.json").read_text())
    (copy / "vocab.json").write_text(json.dumps({piece: id for piece, id in ids.items() if id < size - 1}))
    tokenizer = import_marian(copy, tmp_path / "run").run.tokenizers().target
    assert tokenizer.pieces([size - 1]) == [f"<unused-{size - 1}>"]


def refused(folder: Path, out: Path, match: str) -> None:
    """Check that the import is refused with a reason and leaves no files."""
    with pytest.raises(SeqloomError, match=match) as caught:
        import_marian(folder, out)
    assert caught.value.hint
    assert not out.exists()
    assert not list(out.parent.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"model_type": "bart"}, r"cannot be imported: it is a model of type 'bart'"),
        ({"scale_embedding": False}, r"embeddings are not scaled"),
        ({"decoder_attention_heads": 4}, r"different numbers of heads"),
        ({"decoder_ffn_dim": 7}, r"different widths"),
        ({"activation_function": "tanh"}, r"activation 'tanh' is not one of relu, gelu, silu, swish"),
        ({"tie_word_embeddings": False}, r"shared with each other but not with the output"),
        ({"eos_token_id": 3}, r"vocab\.json does not match config\.json: </s> has the id 2, expected 3"),
        ({"pad_token_id": 9}, r"<pad> has the id 0, expected 9"),
        ({"decoder_start_token_id": 2}, r"must have a <unk> that differs from </s>"),
        ({"vocab_size": 5}, r"must give each piece a unique id below 5"),
        ({"vocab_size": 5000}, r"model\.safetensors does not match config\.json: a weight is missing"),
        (
            {"encoder_layers": 2},
            r"a weight is missing \('model\.encoder\.layers\.1\.self_attn\.q_proj\.weight'\)",
        ),
        (
            {"encoder_ffn_dim": 9, "decoder_ffn_dim": 9},
            r"ffn\.expand\.weight has shape \(20, 16\), expected \(9, 16\)",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_unsupported_or_inconsistent_model_is_refused(
    values: dict[str, Any], match: str, copy: Path, tmp_path: Path
) -> None:
    change(copy / "generation_config.json", eos_token_id=None, pad_token_id=None, decoder_start_token_id=None)
    change(copy / "config.json", **values)
    refused(copy, tmp_path / "run", match)


def test_another_kind_of_folder_is_refused(copy: Path, tmp_path: Path) -> None:
    change(copy / "config.json", model_type=None)
    refused(copy, tmp_path / "run", r"does not contain a Marian model: its config\.json has no model_type")


def test_a_wrong_value_is_named(copy: Path, tmp_path: Path) -> None:
    change(copy / "generation_config.json", num_beams="many")
    with pytest.raises(SeqloomError, match=r"config\.num_beams in .*copy.*got 'many'"):
        import_marian(copy, tmp_path / "run")


def test_weights_that_only_pickle_can_read_are_not_read(copy: Path, tmp_path: Path) -> None:
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    refused(copy, tmp_path / "run", r"has no model\.safetensors, only pytorch_model\.bin")
    (copy / "pytorch_model.bin").unlink()
    refused(copy, tmp_path / "run", r"has no model\.safetensors\.\n")


def test_missing_and_damaged_files_are_named(copy: Path, tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", tmp_path / "run", r"There is no folder .*nowhere")
    (copy / "target.spm").write_bytes(b"no model")
    refused(copy, tmp_path / "run", r"target\.spm is missing or not a SentencePiece model")
    (copy / "source.spm").unlink()
    refused(copy, tmp_path / "run", r"source\.spm is missing or not a SentencePiece model")
    (copy / "vocab.json").write_text("[]")
    refused(copy, tmp_path / "run", r"vocab\.json must be a JSON object")
    (copy / "config.json").unlink()
    with pytest.raises(SeqloomError, match=r"config\.json is missing or damaged"):
        import_marian(copy, tmp_path / "run")


def test_nothing_is_overwritten(ours: Path, marian: Path) -> None:
    with pytest.raises(SeqloomError, match=r"ours already exists and is not empty"):
        import_marian(marian, ours)
    with pytest.raises(SeqloomError, match=r"marian already exists and is not empty"):
        export_marian(ours, marian)


def test_a_folder_that_cannot_be_created_is_an_error(ours: Path, marian: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SeqloomError, match=r"run cannot be written"):
        import_marian(marian, tmp_path / "file" / "run")
    with pytest.raises(SeqloomError, match=r"marian cannot be written"):
        export_marian(ours, tmp_path / "file" / "marian", LINES)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"model.name": "lstm-dot"}, r"model\.name=lstm-dot is not an encoder-decoder Transformer"),
        ({"model.norm_place": "before"}, r"model\.norm_place=before"),
        ({"model.norm": "rms"}, r"model\.norm=rms"),
        ({"model.positions": "rotary"}, r"model\.positions=rotary"),
        ({"model.activation": "swiglu"}, r"model\.activation=swiglu"),
        ({"model.encoder.attention": "window"}, r"model\.encoder\.attention=window"),
        ({"model.residual": False}, r"model\.residual=false"),
        ({"model.scaled": False}, r"model\.scaled=false"),
        ({"model.attention_bias": False}, r"model\.attention_bias=false"),
        ({"model.attention_weights": "raw"}, r"model\.attention_weights=raw"),
        ({"model.qk_width": 5}, r"model\.qk_width=5"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_run_that_marian_does_not_support_is_refused(
    options: dict[str, Any], match: str, tmp_path: Path
) -> None:
    (tmp_path / "ours").mkdir()
    values = {"model.name": "transformer-postnorm", **options}
    (tmp_path / "ours" / "config.yaml").write_text(compose(None, values).to_yaml())
    with pytest.raises(SeqloomError, match=rf"ours cannot be exported as a Marian model: .*{match}"):
        export_marian(tmp_path / "ours", tmp_path / "marian")


def test_a_wrong_export_is_detected(ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> dict[str, torch.Tensor]:
        weights = blocks_to_marian(*args)
        weights["model.decoder.layers.1.fc2.bias"] += 1e-3 * torch.arange(16)
        return weights

    monkeypatch.setattr(marian_export, "blocks_to_marian", broken)
    with pytest.raises(SeqloomError, match=r"differs from the run: .* Nothing was written"):
        export_marian(ours, tmp_path / "marian", LINES)
    assert list(tmp_path.iterdir()) == []


def test_without_a_plain_line_the_export_cannot_be_verified(ours: Path, tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match=r"no line on which to compare"):
        export_marian(ours, tmp_path / "marian", [">>fra<< a", " "])


def test_differences_from_marian_are_noted(ours: Path, tmp_path: Path) -> None:
    notes = export_marian(ours, tmp_path / "marian", LINES).notes
    assert [note.split()[0:2] for note in notes] == [["Text", "must"], ["The", "maximum"]]
