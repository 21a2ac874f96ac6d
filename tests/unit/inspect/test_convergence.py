"""EM on the toy corpora, against IBM 1 and the likelihood of an HMM written out in NumPy."""

from __future__ import annotations

import json
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from seqloom.inspect.convergence import PAIRS, SENTENCES, alignment_steps, hmm_steps
from support.commands import Command

NULL = "the null word"


def test_ibm_1_is_the_textbook_iteration() -> None:
    found = alignment_steps(4)
    pairs = [([NULL, *source.split()], target.split()) for source, target in PAIRS]
    targets = {word for _, target in pairs for word in target}
    t = {(e, f): 1 / len(targets) for source, _ in pairs for e in source for f in targets}
    for iteration in range(5):
        counts = dict.fromkeys(t, 0.0)
        log_likelihood = 0.0
        for source, target in pairs:
            for f in target:
                total = sum(t[e, f] for e in source)
                log_likelihood += np.log(total / len(source))
                for e in source:
                    counts[e, f] += t[e, f] / total
        assert found.log_likelihood[iteration] == pytest.approx(log_likelihood)
        for given, curves in found.probabilities.items():
            for outcome, values in curves.items():
                assert values[iteration] == pytest.approx(t[given, outcome], abs=1e-9)
        t = {(e, f): n / sum(counts[e, g] for g in targets) for (e, f), n in counts.items()}
    assert found.probabilities["the"]["das"][-1] > 0.8 > found.probabilities["the"]["Haus"][0]


def test_the_likelihood_of_the_hmm_is_the_sum_over_all_paths_and_increases() -> None:
    found = hmm_steps(6)
    assert all(after >= before - 1e-9 for before, after in pairwise(found.log_likelihood))
    assert found.transitions is not None
    states = list(found.probabilities)
    for iteration in (0, 6):
        total = 0.0
        for sentence in SENTENCES:
            words = sentence.split()
            probability = 0.0
            for path in product(states, repeat=len(words)):
                p = 1.0
                for before, state, word in zip(("start", *path), path, words, strict=False):
                    p *= found.transitions[before][state][iteration]
                    p *= found.probabilities[state][word][iteration]
                probability += p
            total += np.log(probability)
        assert found.log_likelihood[iteration] == pytest.approx(total)


def test_the_states_become_word_classes() -> None:
    last = {
        state: {word: p[-1] for word, p in one.items()} for state, one in hmm_steps(30).probabilities.items()
    }
    classes = {frozenset(word for word, p in one.items() if p > 0.1) for one in last.values()}
    assert classes == {frozenset({"the", "a"}), frozenset({"dog", "cat"}), frozenset({"sleeps", "runs"})}


def test_the_commands_print_write_and_refuse(command: Command, tmp_path: Path) -> None:
    done = command("inspect", "alignment", "--iterations", 3, "--json", "--out", tmp_path / "e.png")
    told = json.loads(done.out)
    assert told["version"] == 1 and len(told["log_likelihood"]) == 4
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    done = command("inspect", "hmm", "--iterations", 3)
    assert done.code == 0 and "log-likelihood" in done.out
    for options, message in (
        (("alignment", "--gold", "x"), "--gold needs a corpus"),
        (("alignment", "--no-agree"), "--agree needs a corpus"),
        (("alignment", "--model", "hmm"), "--model needs a corpus"),
        (("alignment", "--iterations", 2, "--prior", 0.5), "--prior needs a corpus"),
        (("hmm",), "No run or no text"),
        (("hmm", tmp_path), "No run or no text"),
        (("hmm", tmp_path, "a", "--iterations", 2), "without a run"),
    ):
        done = command("inspect", *options)
        assert done.code == 2 and message in done.err, done.err
