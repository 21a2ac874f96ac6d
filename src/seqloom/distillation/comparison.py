"""Quality, speed and size of teacher and student on the same lines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqloom.decode.strategies import BeamSearch
from seqloom.decode.translator import requests_for
from seqloom.distillation.translation import TranslatorOptions
from seqloom.evaluate.metrics import Metric, evaluate
from seqloom.inspect.facts import describe
from seqloom.progress import counter
from seqloom.types import Example

_WARM_UP = 8  # lines that are translated before the measurement: the first calls allocate memory


def measure(
    name: str,
    runs: Sequence[Path],
    examples: Sequence[Example],
    metrics: Sequence[Metric],
    decoding: TranslatorOptions,
) -> dict[str, Any]:
    """Return the scores with intervals, the sentences per second and the parameters of a run or an ensemble."""
    plain = TranslatorOptions(
        BeamSearch.checked({}, "search"),
        engine=decoding.engine,
        space=decoding.space if len(runs) > 1 else "probability",
        device=decoding.device,
        threads=decoding.threads,
    )
    translator = plain.load(runs)
    sources, trees = [example.source for example in examples], [example.heads for example in examples]
    requests = requests_for(translator, sources, trees)
    translator.translate(requests[:_WARM_UP])
    with counter(f"translated by the {name}", len(requests)) as advance:
        start = time.perf_counter()
        outputs = translator.translate(requests, on_progress=advance)
        seconds = time.perf_counter() - start
    texts = [hypotheses[0].text for hypotheses in outputs]
    references = [[example.target or ""] for example in examples]
    facts = [describe(run) for run in runs]
    return {
        "name": name,
        "runs": [str(run) for run in runs],
        "model": " + ".join(fact["model"]["name"] for fact in facts),
        "parameters": sum(fact["parameters"] for fact in facts),
        "engine": translator.engine,
        "beam": translator.search.beam,
        "lines": len(texts),
        "seconds": round(seconds, 3),
        "sentences_per_second": round(len(texts) / seconds, 2),
        "scores": [score.as_dict() for score in evaluate(texts, references, metrics)],
        "flags": dict(Counter(flag for hypotheses in outputs for flag in hypotheses[0].flags)),
    }
