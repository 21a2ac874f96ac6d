"""Time to quality: the search, the clock, what toolkits are told, the records, the table and the picture."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from seqloom.errors import SeqloomError
from seqloom.inspect.picture import save_figure
from seqloom.run.config import compose
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair

LINES = ["a cat sees 3 dogs", "two dogs see 1 cat", "a dog", "the cats saw 2 men"]
STEPS = [10, 20, 30, 40, 50, 60, 70]


@pytest.fixture
def module() -> Any:
    return importlib.import_module


@pytest.fixture
def tokenizers() -> TokenizerPair:
    text = TextConfig.model_validate({"tokenizer": "char"})
    return TokenizerPair.train(text, lambda: [(line, line) for line in LINES])


@pytest.fixture
def workload(module: Any, tokenizers: TokenizerPair, tmp_path: Path) -> Any:
    for name in ("val.en", "val.de"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    corpus = module("workload").Corpus(tmp_path, tokenizers, [(18, 18)] * len(LINES))
    recipe = module("workload").Recipe()
    return module("workload").Workload(
        corpus, 60.0, 0.0, threads=1, batch_tokens=360, recipe=recipe, checkpoint_every=10
    )


@pytest.mark.parametrize(
    ("scores", "stride", "found", "asked"),
    [
        ([1, 2, 3, 4, 5, 6, 7], 3, 50, [30, 60, 40, 50]),
        ([5, 6, 7, 8, 9, 9, 9], 3, 10, [30, 10]),
        ([1, 1, 1, 1, 1, 1, 5], 3, 70, [30, 60, 70]),
        ([1, 2, 3, 4, 4, 4, 4], 3, None, [30, 60, 70]),
        ([1, 5, 1, 1, 5, 1, 1], 1, 20, [10, 20]),
        ([1, 1, 1, 1, 1, 5, 5], 100, 60, [70, 10, 20, 30, 40, 50, 60]),
        ([], 3, None, []),
    ],
)
def test_the_first_checkpoint_with_the_target_is_found_with_few_decodings(
    module: Any, scores: list[float], stride: int, found: int | None, asked: list[int]
) -> None:
    steps = STEPS[: len(scores)]
    seen: list[int] = []

    def score(step: int) -> float:
        seen.append(step)
        return scores[steps.index(step)]

    assert module("time_to_quality").first_reaching(steps, score, 5, stride) == found
    assert list(dict.fromkeys(seen)) == asked


def test_a_checkpoint_has_the_clock_of_its_update_if_it_was_saved(module: Any, tmp_path: Path) -> None:
    rows = [
        {"kind": "train", "step": step, "seconds": 7.0 + step, "target_tokens": 100 * step}
        for step in range(1, 41)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "model").mkdir()
    for step in (10, 15, 20, 30):  # 40 was to come when time was up
        (tmp_path / "model" / f"{step}.ckpt").touch()
    saved = module("checkpoints").TOOLKITS["joeynmt"].checkpoints(tmp_path, 12.5, 10)
    assert [one.step for one in saved] == [10, 20, 30]
    first = saved[0]
    assert (first.seconds, first.seconds_from_start, first.target_tokens) == (9.0, 21.5, 1000)


def test_all_have_the_same_learning_rates(module: Any, workload: Any, tmp_path: Path) -> None:
    configs, model = module("peer_configs"), module("workload").Transformer()
    opennmt = configs.opennmt_config(model, workload, tmp_path)
    peak = opennmt["learning_rate"] * model.width**-0.5 * opennmt["warmup_steps"] ** -0.5
    assert peak == pytest.approx(1e-3) and opennmt["warmup_steps"] == 400 and opennmt["adam_beta2"] == 0.98
    assert opennmt["save_checkpoint_steps"] == 10
    training = configs.huggingface_config(model, workload, tmp_path)["training"]
    assert (training["learning_rate"], training["warmup_steps"], training["adam_beta2"]) == (1e-3, 400, 0.98)
    assert (training["save_strategy"], training["save_steps"]) == ("steps", 10)
    joey = configs.joeynmt_config(model, workload, tmp_path, shuffle=True)
    training = joey["training"]
    assert (training["learning_rate"], training["learning_rate_warmup"]) == (1e-3, 400)
    assert training["adam_betas"] == [0.9, 0.98] and training["learning_rate_min"] < 1e-3 / 400
    assert training["validation_freq"] == 10 and joey["model"]["encoder"]["layer_norm"] == "pre"
    ours = module("ours")
    tree = {"data.train": "x.tsv", **ours._checkpoint_options(10), **ours._schedule_options(workload.recipe)}
    train = compose(None, tree).train
    assert (train.learning_rate, train.warmup, train.betas) == (1e-3, 400, (0.9, 0.98))
    assert train.checkpoint_every == 10 and train.keep > 10**6


def test_without_a_recipe_each_has_its_own_and_saves_nothing(
    module: Any, workload: Any, tmp_path: Path
) -> None:
    configs, sizes = module("peer_configs"), module("workload")
    plain = sizes.Workload(workload.corpus, 60.0, 0.0, threads=1, batch_tokens=360)
    opennmt = configs.opennmt_config(sizes.Transformer(), plain, tmp_path)
    assert (opennmt["learning_rate"], opennmt["warmup_steps"], opennmt["adam_beta2"]) == (2.0, 4000, 0.998)
    assert opennmt["save_checkpoint_steps"] == 10**9
    training = configs.huggingface_config(sizes.Transformer(), plain, tmp_path)["training"]
    assert training["save_strategy"] == "no" and "adam_beta2" not in training
    joey = configs.joeynmt_config(sizes.LSTM(), plain, tmp_path, shuffle=True)
    assert joey["training"]["validation_freq"] == 10**9 and "adam_betas" not in joey["training"]
    assert "layer_norm" not in joey["model"]["encoder"]
    assert module("ours")._checkpoint_options(None) == {"train.checkpoint_every": 10**9}
    assert module("ours")._schedule_options(None) == {}


@pytest.mark.parametrize("interface", ["text", "ids", "pieces"])
def test_lines_survive_encoding_and_decoding(module: Any, tokenizers: TokenizerPair, interface: str) -> None:
    decoders = module("decoders")
    encoded = decoders.encode_lines(LINES, tokenizers.source, interface)
    assert (encoded == LINES) == (interface == "text")
    assert decoders.decode_outputs(encoded, tokenizers.target, interface) == LINES


def test_a_piece_outside_the_vocabulary_is_the_unknown_token(module: Any, tokenizers: TokenizerPair) -> None:
    decode_outputs = module("decoders").decode_outputs
    with_ids = decode_outputs(["4 3 5"], tokenizers.target, "ids")
    pieces = tokenizers.target.pieces([4, 5])
    assert decode_outputs([f"{pieces[0]} <blank> {pieces[1]}", ""], tokenizers.target, "pieces") == [
        *with_ids,
        "",
    ]


def training(name: str, minutes: float) -> dict[str, Any]:
    saved = [
        {"step": s, "seconds": s * minutes, "seconds_from_start": s * minutes + 6, "target_tokens": 100 * s}
        for s in STEPS
    ]
    known = {"kind": "training", "toolkit": name, "minutes": minutes}
    measured = {"name": name.title(), "version": "1", "tokens_per_second": 1234.5, "checkpoints": saved}
    machine = {"cpu": "cpu", "cores": 2, "threads": 1, "torch": "2", "date": "today"}
    return known | measured | machine


def score(name: str, minutes: float, step: int, bleu: float, beam: int = 1) -> dict[str, Any]:
    known = {"kind": "bleu", "toolkit": name, "minutes": minutes, "step": step, "beam": beam}
    return known | {"bleu": bleu}


ROWS = [
    training("b", 1.0),
    score("b", 1.0, 10, 99.0),  # of a training that another took the place of
    training("b", 12.0),
    score("b", 12.0, 60, 29.0),
    score("b", 12.0, 30, 30.5),
    score("b", 12.0, 10, 50.0, beam=5),
    training("a", 6.0),
    score("a", 6.0, 20, 30.0),
    training("c", 2.0),
    score("c", 2.0, 40, 12.0),
    score("c", 2.0, 70, 11.0),
    training("d", 2.0),
]


def test_the_summary_is_of_the_newest_training(module: Any) -> None:
    a, b, c = module("quality_report").summarise(ROWS, ["a", "b", "c", "d"], beam=1, target=30)
    assert (a.reached.minutes, a.reached.minutes_from_start, a.ratio) == (2.0, 2.1, 1.0)
    assert [point.step for point in b.points] == [30, 60]
    assert (b.reached.step, b.reached.target_tokens, b.ratio) == (30, 3000, 3.0)
    assert c.reached is None and c.ratio is None and c.best.bleu == 12.0


def test_the_table_and_the_picture_say_who_was_late(
    module: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = module("quality_report")
    summaries = report.summarise(ROWS, ["a", "b", "c"], beam=1, target=30)
    report.show(summaries, target=30, beam=1)
    lines = [line.replace(" ", "") for line in capsys.readouterr().out.splitlines()]
    assert "|A1|2.0|2.1|20|2,000|1.00|1,234|today|" in lines
    assert "|B1|6.0|6.1|30|3,000|3.00|1,234|today|" in lines
    assert "|C1|notin2,best12.0|–|40|4,000|–|1,234|today|" in lines
    save_figure(report.draw(summaries, target=30), tmp_path / "curves.svg")
    assert "</svg>" in (tmp_path / "curves.svg").read_text(encoding="utf-8")


class Fake:
    """A toolkit that learns one line at every checkpoint."""

    def __init__(self, module: Any, saved: list[int]) -> None:
        self.module, self.saved, self.trained = module, saved, 0

    def train(self, _model: Any, _workload: Any, _environments: Path, folder: Path) -> Any:
        self.trained += 1
        assert not list(folder.iterdir())
        return self.module("measure").Measurement("Fake", "1", 100.0, 10.0, 60.0, 2.0, 1)

    def checkpoints(self, _folder: Path, start: float, every: int) -> list[Any]:
        assert every == 10
        return [self.module("checkpoints").Checkpoint(s, float(s), s + start, 10 * s) for s in self.saved]

    def decoder(self, _folder: Path, step: int, _environments: Path) -> int:
        return step


def test_what_was_broken_off_goes_on(
    module: Any, workload: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quality, fake = module("time_to_quality"), Fake(module, [10, 20, 30, 40])
    faults, decoded = [SeqloomError("The power went.")], []
    monkeypatch.setitem(quality.TOOLKITS, "fake", fake)

    def run(step: int, _series: Any, lines: list[str], beams: list[int], **_: Any) -> Any:
        if step == 40 and faults:
            raise faults.pop()
        decoded.append(step)
        known = step // 10
        timing = module("decoders").Timing(1.0, [], [*lines[:known], *["?"] * (len(lines) - known)])
        return module("decoders").Result(1.0, {beams[0]: timing})

    monkeypatch.setattr(quality, "run_decoder", run)
    series = quality.Series(
        *(workload, module("workload").Transformer(), tmp_path, tmp_path / "runs"),
        records=tmp_path / "records.jsonl",
        work=tmp_path,
    )
    (series.place("fake") / "of a training that did not end").mkdir(parents=True)
    with pytest.raises(SeqloomError, match="power"):
        quality.measure(series, "fake", target=99, beam=1, stride=2)
    for _ in range(2):
        quality.measure(series, "fake", target=99, beam=1, stride=2)
    assert fake.trained == 1 and decoded == [20, 40, 30]
    assert (series.place("fake") / "decoded-40-1" / "outputs.de").read_text().splitlines() == LINES


def test_a_run_without_checkpoints_is_an_error(
    module: Any, workload: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quality = module("time_to_quality")
    monkeypatch.setitem(quality.TOOLKITS, "fake", Fake(module, []))
    series = quality.Series(
        *(workload, module("workload").Transformer(), tmp_path, tmp_path / "runs"),
        records=tmp_path / "records.jsonl",
        work=tmp_path,
    )
    with pytest.raises(SeqloomError, match="fake saved no checkpoint"):
        quality.measure(series, "fake", target=30, beam=1, stride=4)
