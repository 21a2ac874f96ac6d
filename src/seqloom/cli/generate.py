"""`seqloom generate`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:
    from seqloom.types import Hypothesis

_SAMPLES = 5  # texts drawn for a prompt, unless all would be the same
_PROMPTS_AT_A_TIME = 100


def generate(
    run: Annotated[Path, typer.Argument(help="A run directory of a language model of text.")],
    prompt: Annotated[str, typer.Argument(help="How the text begins; from nothing if not given.")] = "",
    file: Annotated[str | None, typer.Option(help="A file of prompts, one per line; - is stdin.")] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Texts per prompt: 5 if not given, 1 if all were the same.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Tokens of a text at most; data.max_length if not given.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Below 1 safer, above 1 wilder; 0: greedy.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k most probable tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the fewest tokens of this mass.")] = None,
    min_p: Annotated[float | None, typer.Option(help="Draw from tokens of this x the best one's P.")] = None,
    typical: Annotated[float | None, typer.Option(help="Draw from typical tokens of this mass.")] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed, other texts.")] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Search for the likeliest texts with this beam instead.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A search option, e.g. search.no_repeat=3.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object per prompt, with scores.")] = False,
    checkpoint: Annotated[str | None, typer.Option(help="e.g. step-500; the best one if not given.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Continue a text with a language model: texts drawn from it, one per line.

    With --file every text has the number of its prompt before it. The same seed gives the same texts.
    """
    from seqloom.config import search_options
    from seqloom.data.lines import lines
    from seqloom.decode.config import SamplingConfig
    from seqloom.loading import load_generator

    given: dict[str, Any] = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "typical": typical,
        "seed": seed,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if beam and given:
        raise SeqloomError(
            f"--beam searches and --{next(iter(given)).replace('_', '-')} draws: both at once is not possible.",
            "leave one of them out",
        )
    if file and prompt:
        raise SeqloomError("A prompt and a file of prompts are given.", "leave one of them out")
    answers = count or (1 if beam or temperature == 0 else _SAMPLES)
    if beam and answers > beam:
        raise SeqloomError(f"--count {answers} is more than --beam {beam} can give.", "widen the beam")
    options = SamplingConfig.checked({**given, "samples": 1 if beam else answers}, "sampling")
    generator = load_generator(run, checkpoint=checkpoint, device=device, search=search_options(set_ or ()))
    prompts = lines(file) if file else iter([prompt])
    number = 0
    while chunk := list(islice(prompts, _PROMPTS_AT_A_TIME)):
        if beam:
            found = generator.beam(chunk, beam, nbest=answers, max_length=max_length)
        else:
            found = generator.sample(chunk, options, max_length=max_length)
        for text, hypotheses in zip(chunk, found, strict=True):
            number += 1
            for line in [_json(text, hypotheses)] if json_ else _plain(hypotheses, number if file else None):
                print(line)


def _plain(hypotheses: list[Hypothesis], number: int | None) -> Iterator[str]:
    for hypothesis in hypotheses:
        text = hypothesis.text.replace("\n", " ") + ("" if hypothesis.finished else " …")
        yield text if number is None else f"{number}\t{text}"


def _json(prompt: str, hypotheses: list[Hypothesis]) -> str:
    names = ("text", "log_prob", "tokens", "token_log_probs", "finished")
    texts = [{name: asdict(hypothesis)[name] for name in names} for hypothesis in hypotheses]
    return json_text({"prompt": prompt, "texts": texts})
