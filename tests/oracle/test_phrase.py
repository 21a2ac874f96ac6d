"""Phrase-based translation against slow, independent implementations of the definitions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise, product
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
import sacrebleu

from seqloom.statistical.phrase.bleu import Reference, bleu
from seqloom.statistical.phrase.decoder import Decoder, Words
from seqloom.statistical.phrase.extract import MONOTONE, OTHER, SWAP, orientations, spans
from seqloom.statistical.phrase.features import FEATURES, REORDERING
from seqloom.statistical.phrase.forced import force_decode
from seqloom.statistical.phrase.nbest import derivations
from seqloom.statistical.phrase.stacks import StackLimits
from seqloom.statistical.phrase.table import PhraseTable, build_table
from seqloom.types import BOS, EOS, UNK

Links = list[tuple[int, int]]
WORDS = range(4, 9)


class Corpus(NamedTuple):
    sources: list[list[int]]
    targets: list[list[int]]
    links: list[Links]

    def table(self, **options: Any) -> PhraseTable:
        arrays = [[np.array(row) for row in side] for side in (self.sources, self.targets)]
        links = [np.array(own, dtype=np.int64).reshape(-1, 2) for own in self.links]
        chosen = {"longest": 3, "smooth": False, "strength": 0.7, "limit": 1000} | options
        return build_table(*arrays, links, vocabularies=(20, 20), **chosen)


def draw(seed: int, sentences: int = 12) -> Corpus:
    """Return short sentences with random links, some with an unknown word."""
    random = Random(seed)
    corpus = Corpus([], [], [])
    for _ in range(sentences):
        source, target = ([random.choice(WORDS) for _ in range(random.randint(1, 6))] for _ in range(2))
        if random.random() < 0.2:
            target[0] = UNK
        every = list(product(range(len(source)), range(len(target))))
        corpus.sources.append(source)
        corpus.targets.append(target)
        corpus.links.append(sorted(random.sample(every, min(len(every), random.randint(0, 6)))))
    return corpus


def consistent(links: Links, source: int, target: int, longest: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield every pair of spans that satisfies the definition."""
    for i, k, j, m in product(range(source), range(source + 1), range(target), range(target + 1)):
        if 0 < k - i <= longest and 0 < m - j <= longest:
            touched = [(i <= a < k, j <= b < m) for a, b in links]
            if any(x and y for x, y in touched) and all(x == y for x, y in touched):
                yield i, k, j, m


@pytest.mark.parametrize("seed", range(20))
def test_extraction_matches_the_definition(seed: int) -> None:
    corpus = draw(seed)
    for source, target, links in zip(*corpus, strict=True):
        found = list(spans(links, len(source), len(target), 3))
        assert len(found) == len(set(found))
        assert set(found) == set(consistent(links, len(source), len(target), 3))


def test_orientations_of_neighbours() -> None:
    linked = {(0, 0), (1, 2), (2, 1), (3, 3)} | {(-1, -1), (4, 4)}
    assert orientations(linked, (0, 1, 0, 1)) == (MONOTONE, OTHER)
    assert orientations(linked, (1, 2, 2, 3)) == (SWAP, OTHER)
    assert orientations(linked, (2, 3, 1, 2)) == (OTHER, SWAP)
    assert orientations(linked, (3, 4, 3, 4)) == (OTHER, MONOTONE)
    assert orientations(linked, (1, 3, 1, 3)) == (MONOTONE, MONOTONE)


class Seen(NamedTuple):
    """Counts of one phrase pair from a slow pass over the corpus."""

    count: int
    lexical: tuple[float, float]
    before: Counter[int]
    after: Counter[int]


def count(corpus: Corpus, longest: int) -> dict[tuple[tuple[int, ...], tuple[int, ...]], Seen]:
    words: Counter[tuple[int | None, int | None]] = Counter()
    for source, target, links in zip(*corpus, strict=True):
        words.update((source[i], target[j]) for i, j in links)
        words.update((source[i], None) for i in range(len(source)) if i not in {a for a, _ in links})
        words.update((None, target[j]) for j in range(len(target)) if j not in {b for _, b in links})
    of_source, of_target = Counter[int | None](), Counter[int | None]()
    for (x, y), times in words.items():
        of_source[x] += times if y is not None else 0
        of_target[y] += times if x is not None else 0

    def lexical(span: tuple[int, int, int, int], row: int) -> tuple[float, float]:
        source, target, links = corpus.sources[row], corpus.targets[row], corpus.links[row]
        i, k, j, m = span
        inverse = direct = 0.0
        for a in range(i, k):
            own = [target[b] for x, b in links if x == a] or [None]
            inverse += math.log(sum(words[source[a], y] / of_target[y] for y in own) / len(own))
        for b in range(j, m):
            own = [source[a] for a, y in links if y == b] or [None]
            direct += math.log(sum(words[x, target[b]] / of_source[x] for x in own) / len(own))
        return inverse, direct

    found: dict[Any, Seen] = {}
    for row, (source, target, links) in enumerate(zip(*corpus, strict=True)):
        linked = {*links, (-1, -1), (len(source), len(target))}
        for span in consistent(links, len(source), len(target), longest):
            pair = tuple(source[span[0] : span[1]]), tuple(target[span[2] : span[3]])
            if UNK in pair[1]:
                continue
            old = found.get(pair, Seen(0, (-math.inf, -math.inf), Counter(), Counter()))
            before, after = orientations(linked, span)
            found[pair] = Seen(
                old.count + 1,
                max(old.lexical, lexical(span, row), key=sum),
                old.before + Counter([before]),
                old.after + Counter([after]),
            )
    return found


def rows(table: PhraseTable) -> dict[tuple[tuple[int, ...], tuple[int, ...]], int]:
    return {
        (table.source.words(s), table.target.words(int(table.translation[row]))): row
        for s in range(len(table.source))
        for row in range(int(table.first[s]), int(table.first[s + 1]))
    }


@pytest.mark.parametrize("seed", range(8))
def test_relative_frequencies_lexical_weights_and_orientations(seed: int) -> None:
    corpus = draw(seed)
    table, seen = corpus.table(), count(corpus, 3)
    found = rows(table)
    assert set(found) == set(seen)
    of_source, of_target, before, after = Counter[Any](), Counter[Any](), Counter[int](), Counter[int]()
    for (x, y), one in seen.items():
        of_source[x] += one.count
        of_target[y] += one.count
        before += one.before
        after += one.after
    for (x, y), row in found.items():
        one = seen[x, y]
        inverse, direct = math.log(one.count / of_target[y]), math.log(one.count / of_source[x])
        lexical = one.lexical
        got = table.scores[row].tolist()
        assert got[0::2] == pytest.approx([inverse, direct], abs=1e-5)
        assert got[1] + got[3] == pytest.approx(sum(lexical), abs=1e-5)
        for side, overall, columns in ((one.before, before, slice(0, 3)), (one.after, after, slice(3, 6))):
            shares = [(overall[o] + 1) / (overall.total() + 3) for o in range(3)]
            wanted = [math.log((side[o] + 0.7 * shares[o]) / (one.count + 0.7)) for o in range(3)]
            assert table.reordering[row, columns].tolist() == pytest.approx(wanted, abs=1e-5)


def test_discounted_probabilities_match_the_equation_and_sum_to_one() -> None:
    corpus = draw(3, sentences=150)
    table, seen = corpus.table(smooth=True), count(corpus, 3)
    n = Counter(one.count for one in seen.values())
    y = n[1] / (n[1] + 2 * n[2])
    discount = {k: k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)}
    company = Counter(target for _, target in seen)
    total, freed = Counter[Any](), defaultdict[Any, float](float)
    for (source, _), one in seen.items():
        total[source] += one.count
        freed[source] += discount[min(one.count, 3)]
    for (source, target), row in rows(table).items():
        times = seen[source, target].count
        kept = times - discount[min(times, 3)] + freed[source] * company[target] / len(seen)
        assert table.scores[row, 2] == pytest.approx(math.log(kept / total[source]), abs=1e-5)
    for source in total:
        mass = sum(one.count - discount[min(one.count, 3)] for (x, _), one in seen.items() if x == source)
        assert (mass + freed[source]) / total[source] == pytest.approx(1.0)


class Bigrams:
    """A bigram language model with arbitrary probabilities."""

    start = (BOS,)

    def log_prob(self, context: tuple[int, ...], word: int) -> tuple[float, tuple[int, ...]]:
        last = context[0] if context else 0
        return -0.1 - ((last * 31 + word * 17) % 23) / 7, (word,)


class Derived(NamedTuple):
    features: tuple[float, ...]
    words: tuple[int, ...]


def enumerate_all(
    source: list[int], table: PhraseTable, language: Bigrams, jump: int | None
) -> Iterator[Derived]:
    """Return every derivation, with features computed from their definitions."""
    known = defaultdict[tuple[int, ...], list[tuple[int | None, tuple[int, ...]]]](list)
    for (x, y), row in rows(table).items():
        known[x].append((row, y))
    for word in source:
        if (word,) not in known:
            known[(word,)].append((None, (word + 1,)))

    def grow(left: frozenset[int], chosen: list[Any]) -> Iterator[Derived]:
        if not left:
            yield measure(chosen)
            return
        last = chosen[-1][1] if chosen else 0
        for start, stop in product(range(len(source)), range(1, len(source) + 1)):
            if start < stop and set(range(start, stop)) <= left:
                back = stop - min(left) if start != min(left) else 0
                if jump is not None and (abs(start - last) > jump or back > jump):
                    continue
                for row, words in known[tuple(source[start:stop])]:
                    yield from grow(left - set(range(start, stop)), [*chosen, (start, stop, row, words)])

    def measure(chosen: list[Any]) -> Derived:
        values = dict.fromkeys(FEATURES, 0.0)
        words = [word for *_, own in chosen for word in own]
        for last, word in zip([BOS, *words], [*words, EOS], strict=True):
            values["language"] += language.log_prob((last,), word)[0]
        values["words"], values["phrases"] = len(words), len(chosen)
        kinds = ("monotone", "swap", "other")
        places = [(-9, 0, None, ()), *chosen, (len(source), -9, None, ())]
        for (a, b, before, _), (start, stop, behind, _) in pairwise(places):
            kind = 0 if start == b else 1 if stop == a else 2
            if stop != -9:
                values["distance"] -= abs(start - b)
            if before is not None:
                values[f"after-{kinds[kind]}"] += table.reordering[before, 3 + kind]
            if behind is not None:
                values[f"before-{kinds[kind]}"] += table.reordering[behind, kind]
                names = ("inverse-phrase", "inverse-lexical", "direct-phrase", "direct-lexical")
                for name, value in zip(names, table.scores[behind].tolist(), strict=True):
                    values[name] += value
        values["unknown"] = sum(row is None for _, _, row, _ in chosen)
        return Derived(tuple(map(float, values.values())), tuple(words))

    yield from grow(frozenset(range(len(source))), [])


@pytest.mark.parametrize("jump", [None, 0, 2])
@pytest.mark.parametrize("seed", range(6))
def test_unlimited_search_contains_every_derivation(seed: int, jump: int | None) -> None:
    random = Random(seed)
    table = draw(seed, sentences=4).table(longest=2)
    source = [random.choice((*WORDS, 15)) for _ in range(4)]  # 15 is in no phrase
    weights = np.array([random.uniform(-0.2, 1) for _ in FEATURES])
    unlimited = StackLimits(stack=None, pops=None, threshold=None, jump=jump)
    language = Bigrams()
    decoder = Decoder(table, language, weights, unlimited, 1000)
    words = Words(source, [str(word) for word in source], [word + 1 for word in source])
    found = list(derivations(decoder.search(decoder.read(words))))
    wanted = sorted(
        enumerate_all(source, table, language, jump), key=lambda one: -np.dot(one.features, weights)
    )
    assert len(found) == len(wanted)
    scores = [float(np.dot(one.features, weights)) for one in wanted]
    assert [one.score for one in found] == pytest.approx(scores, abs=1e-6)
    assert tuple(word for word, _ in found[0].words) == wanted[0].words
    ours = [decoder.features(one, len(source)) for one in found]
    assert [float(features @ weights) for features in ours] == pytest.approx(scores, abs=1e-6)
    assert sorted(map(_rounded, ours)) == sorted(_rounded(one.features) for one in wanted)


@pytest.mark.parametrize("jump", [None, 0, 2])
@pytest.mark.parametrize("seed", range(8))
def test_forced_decoding_finds_the_best_derivation_of_a_target(seed: int, jump: int | None) -> None:
    random = Random(seed)
    table = draw(seed, sentences=12).table(longest=3)
    source = [random.choice((*WORDS[:2], 15)) for _ in range(4)]  # 15 is in no phrase
    weights = np.array([random.uniform(-0.2, 1) for _ in FEATURES])
    weights[REORDERING] *= 20  # so that the best prefix is not always part of the best derivation
    language = Bigrams()
    decoder = Decoder(table, language, weights, StackLimits(stack=1, pops=1, jump=jump), 1000)  # no pruning
    sentence = decoder.read(Words(source, [""] * 4, [word + 1 for word in source]))
    best: dict[tuple[int, ...], float] = defaultdict(lambda: -math.inf)
    for one in enumerate_all(source, table, language, jump):
        best[one.words] = max(best[one.words], float(np.dot(one.features, weights)))
    for words, score in best.items():
        found = force_decode(decoder, sentence, bytes(words), lambda option: bytes(option.words))
        assert found is not None
        assert found.derivation.score == pytest.approx(score, abs=1e-4)
        assert tuple(word for word, _ in found.derivation.words) == words
        assert sum(found.gains) == pytest.approx(score, abs=1e-4)
        assert float(decoder.features(found.derivation, 4) @ weights) == pytest.approx(score, abs=1e-4)
    for words in [(*max(best, key=len), 1), (), min(best, key=len)[1:]]:
        if words not in best:
            assert force_decode(decoder, sentence, bytes(words), lambda option: bytes(option.words)) is None


def _rounded(values: Any) -> tuple[float, ...]:
    return tuple(round(float(value), 4) + 0.0 for value in values)


@pytest.mark.parametrize("seed", range(5))
def test_future_estimate_is_the_best_segmentation(seed: int) -> None:
    table = draw(seed).table()
    random = Random(seed)
    source = [random.choice(WORDS) for _ in range(6)]
    decoder = Decoder(table, Bigrams(), np.full(len(FEATURES), 0.3), StackLimits(), 1000)
    sentence = decoder.read(Words(source, [str(word) for word in source], source))
    best = {(start, stop): choice.best for start, row in enumerate(sentence.spans) for stop, _, choice in row}

    def through(start: int, end: int) -> float:
        if start == end:
            return 0.0
        return max(best[start, k] + through(k, end) for k in range(start + 1, end + 1) if (start, k) in best)

    for start in range(6):
        for stop in range(start + 1, 7):
            assert sentence.future[start][stop] == pytest.approx(through(start, stop))


def test_bleu_matches_sacrebleu() -> None:
    random = Random(5)
    pairs = [
        [[str(random.choice(WORDS)) for _ in range(random.randint(0, 9))] for _ in range(2)] for _ in range(30)
    ]
    totals = np.sum([Reference(right).counts(left) for left, right in pairs], axis=0)
    theirs = sacrebleu.corpus_bleu(
        [" ".join(left) for left, _ in pairs],
        [[" ".join(right) for _, right in pairs]],
        tokenize="none",
        smooth_method="none",
        force=True,
    )
    assert 100 * bleu(totals) == pytest.approx(theirs.score)
