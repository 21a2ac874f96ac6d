"""Run directories: which weights are served, descriptions, metrics and ensembles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from seqloom.errors import SeqloomError
from seqloom.inspect.facts import describe
from seqloom.run.build import build_model, choose_device
from seqloom.run.config import compose
from seqloom.run.directory import Run
from seqloom.run.load import commands_for, load, load_ensemble, load_filler, load_generator, load_scorer, use_of
from seqloom.run.train import create
from support.configs import TINY, TINY_RECURRENT
from support.runs import SharedRuns, create_run, train_run, write_lines


@pytest.fixture
def run(shared_runs: SharedRuns) -> Run:
    """A run of four steps with checkpoints at 2 and 4."""
    return Run(shared_runs.build("transformer") / "transformer")


def fake(folder: Path, *names: str) -> Run:
    """Create a run directory with empty weights under these names."""
    for name in names:
        file = folder / "checkpoints" / name / "model.safetensors"
        file.parent.mkdir(parents=True)
        file.touch()
    return Run(folder)


def test_the_best_weights_are_served_and_otherwise_the_newest(tmp_path: Path) -> None:
    run = fake(tmp_path, "step-9", "step-10", "average")
    folder = tmp_path / "checkpoints"
    assert run.weights().parent == folder / "step-10"  # by number, not by name
    (folder / "best").symlink_to("step-9")
    assert run.weights().resolve().parent == folder / "step-9"
    (folder / "best").unlink()
    (folder / "best").symlink_to("step-8")  # its target was removed by hand
    assert run.weights().parent == folder / "step-10"


def test_an_average_alone_is_served(tmp_path: Path) -> None:
    assert fake(tmp_path, "average").weights().parent.name == "average"


def test_a_named_checkpoint(tmp_path: Path) -> None:
    run = fake(tmp_path, "step-9", "step-10", "average")
    assert run.weights("average").parent.name == "average"
    with pytest.raises(SeqloomError) as error:
        run.weights("step-11")
    assert "no checkpoint 'step-11'" in error.value.message
    assert error.value.hint == "available: average, step-10, step-9"


def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match="has no checkpoint yet"):
        Run(tmp_path).weights()
    with pytest.raises(SeqloomError, match="available: none yet"):
        Run(tmp_path).weights("best")


def test_opening_a_folder_that_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match="There is no run directory"):
        Run.open(tmp_path / "nowhere")
    with pytest.raises(SeqloomError, match=r"it has no config\.yaml"):
        Run.open(tmp_path)


def test_weights_are_drawn_from_the_seed(run: Run) -> None:
    config, tokenizers = run.config(), run.tokenizers()
    torch.manual_seed(1234)  # earlier draws do not matter
    first = build_model(config, tokenizers).state_dict()
    second = build_model(config, tokenizers).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    tree = config.model_copy(update={"train": config.train.model_copy(update={"seed": 2})})
    other = build_model(tree, tokenizers).state_dict()
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_loading_gives_the_best_weights_in_evaluation_mode(run: Run) -> None:
    translator = load(run.folder, device="cpu")
    assert not translator.model.training  # type: ignore[attr-defined]
    from safetensors.torch import load_file

    saved = load_file(run.weights())
    served = translator.model.state_dict()  # type: ignore[attr-defined]
    assert all(torch.equal(served[name], tensor) for name, tensor in saved.items())


def test_two_checkpoints_give_different_outputs(run: Run) -> None:
    scores = [load(run.folder, checkpoint=f"step-{n}").translate(["1 2"])[0][0].score for n in (2, 4)]
    assert scores[0] != scores[1]


def test_devices() -> None:
    assert choose_device("cpu").type == "cpu"
    assert choose_device("auto").type in ("cpu", "cuda")
    for name in ("abacus", "cuda:99"):
        with pytest.raises(SeqloomError, match=f"'{name}' cannot be used here"):
            choose_device(name)


def test_describe_is_plain_data(run: Run) -> None:
    facts = describe(run)
    assert json.loads(json.dumps(facts)) == facts
    assert facts["run"] == str(run.folder)
    assert (facts["steps"], facts["checkpoints"]) == (4, [2, 4])
    assert facts["best_step"] in (2, 4)
    assert facts["best"].keys() == {"loss"}
    assert facts["model"]["name"] == "transformer"
    assert facts["vocabulary"]["source"] == run.tokenizers().source.size
    assert facts["joint_vocabulary"]
    # embedding 8 per symbol (tied), bias 1 per symbol, and the blocks
    assert facts["parameters"] > 9 * facts["vocabulary"]["source"]


def test_describe_a_run_before_its_first_step(run: Run, tmp_path: Path) -> None:
    new = create(run.config(), tmp_path / "new", quiet=True)
    facts = describe(new)
    assert (facts["steps"], facts["checkpoints"]) == (0, [])
    assert "best" not in facts


def test_metrics_are_the_entries_of_the_file(run: Run, tmp_path: Path) -> None:
    kinds = [(line["kind"], line["step"]) for line in run.metrics()]
    assert kinds == [("train", 2), ("valid", 2), ("train", 4), ("valid", 4)]
    assert Run(tmp_path).metrics() == []


def test_metrics_truncated_by_a_crash_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"kind": "train", "step": 1}\n\xff\n[1]\n{"kind": "train", "st')
    assert Run(tmp_path).metrics() == [{"kind": "train", "step": 1}]


@pytest.mark.parametrize(
    "values, use, measured_by",
    [
        ({"data.train": "pairs.tsv"}, "translate", "evaluate"),
        ({"data.train": "pairs.tsv", "model.name": "lm"}, "translate", "evaluate"),
        ({"data.train": "text.txt", "model.name": "lm"}, "generate", "score"),
        ({"data.train": "t.tsv", "data.target_column": "none", "model.name": "lm"}, "generate", "score"),
        ({"data.train": "text.txt", "model.name": "mlm"}, "fill", "score"),
        ({"data.train": "text.txt", "data.noise.kind": "infill"}, "translate", "evaluate"),
    ],
)
def test_a_run_knows_its_commands(tmp_path: Path, values: dict[str, str], use: str, measured_by: str) -> None:
    config = compose(values={"model.size": "tiny", **values})
    assert use_of(config) == use
    (tmp_path / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    shows, measures = commands_for(Run(tmp_path))
    assert shows.startswith(f"seqloom {use} {tmp_path} ")
    assert measures.startswith(f"seqloom {measured_by} {tmp_path} ")


def test_a_run_for_another_use_is_an_error_that_names_the_right_command(run: Run) -> None:
    for load_other, other in ((load_generator, "continue a text"), (load_filler, "fill gaps")):
        with pytest.raises(SeqloomError, match=rf"\(transformer\) translates; it does not {other}") as error:
            load_other(run.folder)
        assert error.value.hint == f"e.g. seqloom translate {run.folder} FILE"


def test_every_run_scores(run: Run) -> None:
    scorer = load_scorer(run.folder, device="cpu")
    assert len(scorer.score([("1 2", "1 1")])[0].log_probs) == 3


@pytest.fixture(scope="module")
def recurrent(shared_runs: SharedRuns, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An LSTM of two steps on the same pairs."""
    settings = {**TINY_RECURRENT, "model.name": "lstm-bilinear", "train.max_steps": 2}
    return train_run(tmp_path_factory.mktemp("recurrent") / "lstm", shared_runs.folder / "digits.tsv", settings)


def test_an_lstm_and_a_transformer_vote(run: Run, recurrent: Run) -> None:
    folders = [run.folder, recurrent.folder]
    lines = ["1 2", "", "6 4", "3"]
    each = [load(folder).translate(lines, beam=3) for folder in folders]
    for space in ("probability", "log"):
        both = load_ensemble(folders, space=space)  # type: ignore[arg-type]
        found = both.translate(lines, beam=3)
        assert [len(many) for many in found] == [1] * 4
        alone = {round(answers[0][0].log_prob, 6) for answers in each}
        assert round(found[0][0].log_prob, 6) not in alone
        (alone_again,) = both.translate(["6 4"], beam=3)[0]
        assert found[2][0].text == alone_again.text
        assert found[2][0].score == pytest.approx(alone_again.score, rel=1e-5)


def test_weights_and_checkpoints_are_given_per_run(run: Run, recurrent: Run) -> None:
    folders = [run.folder, recurrent.folder]
    heavy = load_ensemble(folders, weights=[1, 1e9], checkpoints=["step-2", None]).translate(["1 2"])[0][0]
    alone = load(recurrent.folder).translate(["1 2"])[0][0]
    assert heavy.text == alone.text
    assert heavy.log_prob == pytest.approx(alone.log_prob, rel=1e-4)
    with pytest.raises(SeqloomError, match=r"lstm has no checkpoint 'step-4'"):
        load_ensemble(folders, checkpoints=["step-4", "step-4"])


def test_runs_that_cannot_form_an_ensemble_are_an_error(run: Run, recurrent: Run, tmp_path: Path) -> None:
    table = write_lines(tmp_path / "pairs.tsv", (f"{i % 7} b\tb {i % 3}" for i in range(60)))
    other = create_run(tmp_path / "other", table, TINY)
    with pytest.raises(SeqloomError, match=r"other and .*transformer have different target vocabularies"):
        load_ensemble([run.folder, other.folder])
    with pytest.raises(SeqloomError, match="at least one run"):
        load_ensemble([])
    with pytest.raises(SeqloomError, match="2 runs, but 1 weights"):
        load_ensemble([run.folder, recurrent.folder], weights=[1.0])
    with pytest.raises(SeqloomError, match="1 runs, but 2 checkpoints"):
        load_ensemble([run.folder], checkpoints=[None, None])
    with pytest.raises(SeqloomError, match="has the weight 0"):
        load_ensemble([run.folder, recurrent.folder], weights=[1, 0])
    with pytest.raises(SeqloomError, match="no space called 'logs'"):
        load_ensemble([run.folder, recurrent.folder], space="logs")  # type: ignore[arg-type]


def test_a_scorer_can_be_required_to_have_a_use(run: Run) -> None:
    assert load_scorer(run.folder, use="translate").score([("1 2", "1")])[0].log_prob < 0
    with pytest.raises(SeqloomError, match="does not continue a text"):
        load_scorer(run.folder, use="generate")


def test_a_run_records_the_length_ratio(run: Run, tmp_path: Path) -> None:
    assert run.length_ratio() == pytest.approx(1 / 3)  # "3 1" -> "3"
    assert Run(tmp_path).length_ratio() is None
    for content in ("", "[]", '{"length_ratio": 2.0, "seal": "other"}', '{"length_ratio": "x"}'):
        (tmp_path / "data.json").write_text(content)
        assert Run(tmp_path).length_ratio() is None
