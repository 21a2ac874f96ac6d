"""Numbers of a comparison: those of `seqloom evaluate`, of the paired test, and counts by hand."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import combinations
from statistics import mean

import pytest
from sacrebleu.metrics import CHRF

from seqloom.compare.examples import choose_examples
from seqloom.compare.folder import ComparisonFolder
from seqloom.compare.results import Results, read_results
from seqloom.evaluate.significance import compare
from seqloom.run.directory import Run
from seqloom.training.checkpoint import TrainState
from support.commands import Command
from support.comparisons import compared, settings_for, write_pairs


@pytest.fixture(scope="module")
def results(comparison: ComparisonFolder) -> Results:
    return read_results(comparison)


def _pairs(comparison: ComparisonFolder, part: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in comparison.part(part).read_text(encoding="utf-8").splitlines()]


def test_scores_equal_those_of_evaluate(
    comparison: ComparisonFolder, results: Results, command: Command
) -> None:
    assert [row.label for row in results.rows] == ["word-based", "lstm-last", "lstm-bilinear"]
    for row in results.rows:
        run = comparison.path / "runs" / row.label
        words = (
            "evaluate",
            run,
            comparison.part("test"),
            "--metrics",
            ",".join(results.setup.metrics),
            "--json",
        )
        report = json.loads(command(*words).out)
        assert [json.loads(json.dumps(score.as_dict())) for score in row.scores] == report["scores"]
        assert [bucket["score"]["value"] for bucket in report["buckets"]] == [
            bucket.score.value for bucket in row.by_length
        ]


def test_differences_are_those_of_the_paired_test(comparison: ComparisonFolder, results: Results) -> None:
    best = results.best
    assert best is not None and best.scores[0].value == max(row.scores[0].value for row in results.rows)
    references = [[pair["target"]] for pair in _pairs(comparison, "test")]
    texts = {system.label: comparison.decoding(system).texts for system in results.setup.systems}  # type: ignore[union-attr]
    others = [row for row in results.rows if row.difference]
    assert len(others) == 2
    for row in others:
        expected = compare(texts[best.label], texts[row.label], references, results.setup.metrics[0])
        found = row.difference
        assert found is not None
        assert (found.delta, found.low, found.high) == pytest.approx(
            (expected.delta, expected.low, expected.high)
        )
        assert found.p_value == expected.p_value


def test_buckets_by_the_rarest_word_count_training_sources(
    comparison: ComparisonFolder, results: Results
) -> None:
    counts = Counter(word for pair in _pairs(comparison, "train") for word in pair["source"].split())
    rarest = [min(counts[word] for word in pair["source"].split()) for pair in _pairs(comparison, "test")]
    groups = Counter(sum(count >= edge for edge in (1, 2, 4, 8, 16, 64)) for count in rarest)
    assert len(groups) > 1
    assert [bucket.count for bucket in results.rows[0].by_frequency] == [groups[key] for key in sorted(groups)]
    assert results.rows[0].by_frequency[0].low == min(rarest)


def test_curves_have_the_validations_of_the_log(comparison: ComparisonFolder, results: Results) -> None:
    counted, *trained = results.rows
    assert len(counted.curve) == 1 and counted.curve[0].target_tokens is None
    for row in trained:
        log = Run.open(comparison.path / "runs" / row.label).metrics()
        valid = [entry for entry in log if entry["kind"] == "valid"]
        metric = results.setup.metrics[0]
        assert [point.value for point in row.curve] == [entry[metric] for entry in valid]
        tokens = {entry["step"]: entry["target_tokens"] for entry in log if entry["kind"] == "train"}
        assert [point.target_tokens for point in row.curve] == [tokens[entry["step"]] for entry in valid]


def test_costs_are_those_of_the_runs(comparison: ComparisonFolder, results: Results) -> None:
    for row in results.rows[1:]:
        run = Run.open(comparison.path / "runs" / row.label)
        state = run.checkpoints().restore_state()
        assert isinstance(state, TrainState) and row.minutes == state.seconds / 60
        assert 50 < row.memory_mb < 10_000 and row.sentences_per_second > 0 and row.tokens_per_second
        assert row.ended == ["reached train.max_steps=4"]
    widths = {row.label: row.parameters for row in results.rows}
    assert widths["lstm-bilinear"] > widths["lstm-last"] > 1000  # attention adds weights


def test_systems_share_data_and_tokenizers(comparison: ComparisonFolder) -> None:
    setup = comparison.setup()
    prints = {
        system.label: Run.open(comparison.path / "runs" / system.name).tokenizers().fingerprint
        for system in setup.systems
    }
    assert prints["lstm-last"] == prints["lstm-bilinear"]
    assert [system.config["data"]["train"] for system in setup.systems] == [[str(comparison.part("train"))]] * 3
    sources = [{pair["source"] for pair in _pairs(comparison, part)} for part in ("train", "valid", "test")]
    assert all(a.isdisjoint(b) for a, b in combinations(sources, 2))
    assert sum(setup.sizes.model_dump().values()) == sum(map(len, sources))


def test_twelve_sentences_show_disagreement_attention_and_chance(results: Results) -> None:
    reasons = [example.reason for example in results.examples]
    assert len(reasons) == 12 and len({example.source for example in results.examples}) == 12
    gain = "largest gain of lstm-bilinear over lstm-last"
    assert reasons[:9] == ["largest disagreement"] * 4 + [gain] * 4 + ["random"]


def test_examples_are_chosen_by_chrf() -> None:
    sources, references = ["a", "b", "c", "c"], ["one two", "three four", "five six", "five six"]
    outputs = {
        "last": ["one two", "x", "five", "five"],
        "attention": ["one two", "three four", "five six", "five six"],
    }
    shown = choose_examples(sources, references, outputs, ("last", "attention"))
    assert [example.source for example in shown] == ["b", "c", "a"]
    chrf = CHRF()
    score = chrf.sentence_score("five", ["five six"]).score
    assert shown[1].scores["last"] == pytest.approx(score)


def test_several_seeds_are_averaged(
    comparison: ComparisonFolder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("seeds")
    only = {"lstm-last": comparison.setup().settings.models["lstm-last"]}
    settings = settings_for(write_pairs(folder / "pairs.tsv"), models=only, seeds=2)
    found = read_results(compared(folder / "cmp", settings)[0])
    (row,) = found.rows
    assert row.seeds == [1, 2] and row.scores[0].value == mean(row.by_seed)
    assert (
        row.by_seed[0]
        == next(one for one in read_results(comparison).rows if one.label == "lstm-last").by_seed[0]
    )
    low, high = row.scores[0].low, row.scores[0].high
    assert low is not None and high is not None and low <= row.scores[0].value <= high
    assert replace(row, seeds=[1]) != row
