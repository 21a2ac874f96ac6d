"""What the golden files record: runs, the commands that use them, and short trainings."""

from __future__ import annotations

from random import Random

Flags = dict[str, object]

_TINY: Flags = {
    "text.tokenizer": "word",
    "text.byte_fallback": False,
    "model.width": 16,
    "model.dropout": 0,
    "train.batch_tokens": 300,
    "train.learning_rate": 0.01,
    "train.warmup": 20,
    "train.log_every": 10,
    "train.threads": 1,
}
_ONE_LAYER: Flags = {**_TINY, "model.layers": 1, "model.ffn": 16, "model.heads": 2}
_LEARNT: Flags = {"train.max_steps": 150, "train.log_every": 50, "train.label_smoothing": 0.1}
_SHORT: Flags = {"train.max_steps": 30}

PAIRS, TAGGED, TEXT, CLIPS = "data/pairs.tsv", "data/tagged.tsv", "data/text.txt", "data/clips.tsv"
TEST, LINES = "data/test.tsv", "data/lines.tsv"

# Run directories that every later version has to load: the data, the model and its options.
RUNS: dict[str, tuple[str, str, Flags]] = {
    "transformer": (PAIRS, "transformer", {**_ONE_LAYER, **_LEARNT}),
    "lstm": (PAIRS, "lstm-additive", {**_TINY, **_LEARNT, "model.width": 12}),
    "prefix-lm": (PAIRS, "prefix-lm", {**_ONE_LAYER, **_LEARNT, "text.joint": True}),
    "lm": (TEXT, "lm", {**_ONE_LAYER, **_LEARNT}),
    "lstm-lm": (TEXT, "lstm-lm", {**_TINY, **_LEARNT}),
    "mlm": (TEXT, "mlm", {**_ONE_LAYER, **_LEARNT}),
    "phrase": (PAIRS, "phrase", {"model.tune_rounds": 1, "train.threads": 1}),
    "ngram": (TEXT, "ngram", {"model.order": 3, "text.tokenizer": "word"}),
    "hmm": (TAGGED, "hmm", {}),
    "hmm-lm": (TEXT, "hmm-lm", {"model.states": 4, "text.tokenizer": "word", "train.threads": 1}),
    "hmm-classifier": (CLIPS, "hmm-classifier", {"model.states": 2, "model.mixtures": 1, "train.threads": 1}),
}
# A run that was stopped half-way: it has to continue and to end with these losses.
STOPPED, STOPPED_AT = "stopped", 30
RUNS[STOPPED] = (
    PAIRS,
    "transformer",
    {**_ONE_LAYER, "train.max_steps": 60, "train.checkpoint_every": STOPPED_AT, "train.keep": 2},
)

# Trainings of 30 steps whose losses, and on one machine whose weights, stay the same.
TRAININGS: dict[str, tuple[str, str, Flags]] = {
    "transformer": (PAIRS, "transformer", {**_ONE_LAYER, **_SHORT, "model.dropout": 0.1}),
    "transformer-postnorm": (PAIRS, "transformer-postnorm", {**_ONE_LAYER, **_SHORT}),
    "transformer-relative": (PAIRS, "transformer-relative", {**_ONE_LAYER, **_SHORT}),
    "transformer-rotary": (PAIRS, "transformer-rotary", {**_ONE_LAYER, **_SHORT}),
    "transformer-alibi": (PAIRS, "transformer-alibi", {**_ONE_LAYER, **_SHORT}),
    "transformer-bigbird": (PAIRS, "transformer-bigbird", {**_ONE_LAYER, **_SHORT}),
    "transformer-linformer": (PAIRS, "transformer-linformer", {**_ONE_LAYER, **_SHORT}),
    "lstm-additive": (PAIRS, "lstm-additive", {**_TINY, **_SHORT, "model.dropout": 0.1}),
    "lstm-last": (PAIRS, "lstm-last", {**_TINY, **_SHORT}),
    "gru-additive": (PAIRS, "gru-additive", {**_TINY, **_SHORT}),
    "lstm-bilinear": (PAIRS, "lstm-bilinear", {**_TINY, **_SHORT, "model.input_feeding": True}),
    "lm": (TEXT, "lm", {**_ONE_LAYER, **_SHORT}),
    "rnn-lm": (TEXT, "rnn-lm", {**_TINY, **_SHORT}),
    "lstm-lm": (TEXT, "lstm-lm", {**_TINY, **_SHORT, "model.dropout": 0.1}),
    "gru-lm": (PAIRS, "gru-lm", {**_TINY, **_SHORT}),
    "mlm": (TEXT, "mlm", {**_ONE_LAYER, **_SHORT}),
    "prefix-lm": (PAIRS, "prefix-lm", {**_ONE_LAYER, **_SHORT}),
    "denoising": (TEXT, "transformer", {**_ONE_LAYER, **_SHORT, "data.noise.kind": "infill"}),
    "bpe": (PAIRS, "transformer", {**_ONE_LAYER, **_SHORT, "text.tokenizer": "bpe", "text.vocab_size": 60}),
    "options": (
        PAIRS,
        "transformer",
        {
            **_ONE_LAYER,
            **_SHORT,
            "train.accumulate": 2,
            "train.schedule": "cosine",
            "train.ema": 0.9,
            "train.weight_decay": 0.01,
            "train.clip": 0.5,
            "train.label_smoothing": 0,
            "train.metrics": "bleu,chrf",
        },
    ),
    "averaged": (PAIRS, "lstm-dot", {**_TINY, **_SHORT, "train.checkpoint_every": 10, "train.average": 3}),
}


def _set(**options: object) -> list[str]:
    return [part for name, value in options.items() for part in ("--set", f"search.{name}={value}")]


# By name the options of `translate`, for models that are decoded token by token.
SEARCHES: dict[str, list[str]] = {
    "greedy": ["--beam", "1"],
    "beam": [],
    "n-best": ["--nbest", "5"],
    "alignment": ["--alignment"],
    "stop-ahead": ["--nbest", "3", *_set(stop="ahead")],
    "stop-count": ["--nbest", "3", *_set(stop="count")],
    "stop-hopeless": ["--nbest", "3", *_set(stop="hopeless")],
    "stop-length": ["--nbest", "3", *_set(stop="length", max_length_extra=4, max_length_factor=1)],
    "norm-none": ["--nbest", "3", *_set(length_norm="none")],
    "norm-length": ["--nbest", "3", *_set(length_norm="length", length_penalty=0.6)],
    "norm-gnmt": ["--nbest", "3", *_set(length_norm="gnmt", length_penalty=0.6)],
    "word-reward": ["--nbest", "3", *_set(length_norm="none", word_reward=0.7)],
    "coverage": ["--nbest", "3", *_set(coverage_penalty=0.4)],
    "groups": ["--beam", "4", "--nbest", "4", *_set(groups=2)],
    "diversity": ["--beam", "4", "--nbest", "4", *_set(groups=2, diversity=1.5)],
    "no-repeat": ["--nbest", "3", *_set(no_repeat=1)],
    "forbid": ["--nbest", "3", *_set(forbid="[le, chat]")],
    "require": ["--nbest", "3", *_set(require="[vert, maison]")],
    "min-length": ["--nbest", "3", *_set(min_length=12)],
    "longest": ["--nbest", "3", *_set(longest=4)],
    "prefix-column": ["--nbest", "2", "--prefix-column", "2"],
    "require-column": ["--nbest", "2", "--require-column", "3"],
    "combined": [
        *("--nbest", "3", "--prefix-column", "2"),
        *_set(stop="hopeless", length_norm="gnmt", coverage_penalty=0.2),
        *_set(no_repeat=2, forbid="chat", min_length=3),
    ],
    "mbr-beam": ["--beam", "5", "--nbest", "3", "--mbr", "chrf"],
}
SAMPLES: dict[str, list[str]] = {
    "sample": ["--sample", "--nbest", "4", "--seed", "3"],
    "temperature": ["--sample", "--nbest", "4", "--temperature", "1.7"],
    "top-k": ["--sample", "--nbest", "4", "--top-k", "3"],
    "top-p": ["--sample", "--nbest", "4", "--top-p", "0.7"],
    "min-p": ["--sample", "--nbest", "4", "--min-p", "0.2"],
    "typical": ["--sample", "--nbest", "4", "--typical", "0.6"],
    "sample-prefix": ["--sample", "--nbest", "2", "--prefix-column", "2"],
    "mbr-chrf": ["--mbr", "chrf", "--samples", "12", "--nbest", "2"],
    "mbr-bleu": ["--mbr", "bleu", "--samples", "12", "--nbest", "2"],
}
PLAIN = {name: SEARCHES[name] for name in ("greedy", "beam", "n-best")}
OTHERS = ["--ensemble", "fixtures/lstm", "--ensemble", "fixtures/prefix-lm"]

# By run and engine what is translated.
TRANSLATIONS: dict[str, dict[str, list[str]]] = {
    "transformer torch": SEARCHES | SAMPLES | {"shortlist": ["--nbest", "3", *_set(shortlist="true")]},
    "transformer ctranslate2": PLAIN | {"norm-length": SEARCHES["norm-length"]},
    "transformer auto": PLAIN,
    "lstm torch": SEARCHES | SAMPLES,
    "prefix-lm torch": SEARCHES | {"sample": SAMPLES["sample"]},
    "hmm torch": PLAIN | {"sample": SAMPLES["sample"], "norm-none": SEARCHES["norm-none"]},
    "hmm-classifier torch": PLAIN,
    "phrase auto": {"beam": [], "n-best": ["--nbest", "5"], "mbr-beam": SEARCHES["mbr-beam"]},
    "stopped torch": {"beam": []},
    "ensemble torch": {
        "probability": [*OTHERS, "--nbest", "3"],
        "log": [*OTHERS, "--nbest", "3", "--ensemble-space", "log"],
        "sample": [*OTHERS, *SAMPLES["sample"]],
    },
}
SOURCES = {"hmm": "data/words.txt", "hmm-classifier": "data/clips.tsv"}  # other runs translate LINES

# Other commands that print JSON.
COMMANDS: dict[str, list[str]] = {
    **{f"score {run}": ["score", f"fixtures/{run}", TEST] for run in ("transformer", "lstm", "phrase")},
    **{
        f"score {run}": ["score", f"fixtures/{run}", TEXT]
        for run in ("lm", "lstm-lm", "mlm", "ngram", "hmm-lm")
    },
    "score hmm": ["score", "fixtures/hmm", TAGGED],
    "evaluate transformer": ["evaluate", "fixtures/transformer", TEST, "--metrics", "bleu,chrf,exact,ter"],
    "evaluate phrase": ["evaluate", "fixtures/phrase", TEST],
    "evaluate hmm": ["evaluate", "fixtures/hmm", TAGGED, "--metrics", "exact"],
    "generate lm": ["generate", "fixtures/lm", "le chat", "--seed", "2"],
    "generate lm beam": ["generate", "fixtures/lm", "le chat", "--beam", "3", "--count", "3"],
    "generate lstm-lm": ["generate", "fixtures/lstm-lm", "le chat", "--seed", "2"],
    "generate ngram": ["generate", "fixtures/ngram", "le chat", "--seed", "2"],
    "generate hmm-lm": ["generate", "fixtures/hmm-lm", "le chat", "--seed", "2"],
    "fill mlm": ["fill", "fixtures/mlm", "le [MASK] voit le chien [MASK] ."],
    "rerank": [
        *("rerank", "fixtures/transformer", "data/words.txt", "--lm", "fixtures/lm", "--nbest", "4"),
        *("--weights", "0,0.5,0.1"),
    ],
}

_NOUNS = {"cat": "chat", "dog": "chien", "house": "maison", "tree": "arbre", "car": "auto"}
_ADJECTIVES = {"red": "rouge", "big": "grand", "old": "vieux", "green": "vert"}
_VERBS = {"sees": "voit", "likes": "aime", "hides": "cache"}


def _noun_phrase(random: Random) -> list[tuple[str, str, str]]:
    """Words with their tags and translations, in the order of the source."""
    noun = random.choice(list(_NOUNS))
    adjectives = [random.choice(list(_ADJECTIVES))] if random.random() < 0.6 else []
    return [
        ("the", "DET", "le"),
        *((word, "ADJ", _ADJECTIVES[word]) for word in adjectives),
        (noun, "NOUN", _NOUNS[noun]),
    ]


def _translated(phrase: list[tuple[str, str, str]]) -> list[str]:
    """The translations, adjectives after their noun."""
    return [word for _, tag, word in sorted(phrase, key=lambda word: word[1] == "ADJ")]


def sentences(count: int, seed: int) -> list[tuple[str, str, str]]:
    """Sources, targets and tags of a made-up language in which adjectives follow their nouns."""
    random = Random(seed)
    found = []
    for _ in range(count):
        subject, object_ = _noun_phrase(random), _noun_phrase(random)
        verb = random.choice(list(_VERBS))
        words = [*subject, (verb, "VERB", _VERBS[verb]), *object_, (".", "PUNCT", ".")]
        target = [*_translated(subject), _VERBS[verb], *_translated(object_), "."]
        source, tags = " ".join(word for word, _, _ in words), " ".join(tag for _, tag, _ in words)
        found.append((source, " ".join(target), tags))
    return found
