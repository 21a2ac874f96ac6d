"""`seqloom generate`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from seqloom.cli.options import (
    Checkpoint,
    Device,
    Ensemble,
    EnsembleSpace,
    MinP,
    Seed,
    SetSearch,
    Temperature,
    TopK,
    TopP,
    Typical,
)
from seqloom.cli.output import write_json_line
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from seqloom.decode.ensemble import Space
    from seqloom.types import Hypothesis

_SAMPLES = 5  # per prompt, unless all would be the same
_CHUNK_PROMPTS = 100


def generate(
    run: Annotated[Path, typer.Argument(help="Run directory of a language model.")],
    prompt: Annotated[str, typer.Argument(help="Beginning of the text.", show_default="empty")] = "",
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with one prompt per line; - is standard input.")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of texts per prompt.",
            show_default=f"{_SAMPLES}; 1 for greedy or beam search",
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Maximum length of a text in tokens.", show_default="data.max_length"
        ),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Beam size of a search for the most probable texts."),
    ] = None,
    set_: SetSearch = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object per prompt.")] = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    typical: Typical = None,
    seed: Seed = None,
    ensemble: Ensemble = None,
    ensemble_space: EnsembleSpace = "probability",
) -> None:
    """Continue a prompt with a language model.

    Samples texts and prints one per line, or searches for the most probable ones with --beam. With --file each
    text follows the number of its prompt. The same seed gives the same texts.

    Examples:
      seqloom generate runs/lm "once upon a time" --count 3
      seqloom generate runs/lm --file prompts.txt --temperature 0.7
      seqloom generate runs/lm "once upon a time" --ensemble runs/ngram
    """
    from seqloom.data.lines import lines
    from seqloom.decode.config import SamplingConfig
    from seqloom.run.config import search_options
    from seqloom.run.load import load_generator

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
        flag = next(iter(given)).replace("_", "-")
        raise SeqloomError(
            f"--beam and --{flag} exclude each other.", f"leave one out: --{flag} is for sampling"
        )
    if file and prompt:
        raise SeqloomError("Give a prompt or --file, not both.", "leave one of them out")
    number_of_texts = count or (1 if beam or temperature == 0 else _SAMPLES)
    if beam and number_of_texts > beam:
        raise SeqloomError(
            f"--count {number_of_texts} is larger than --beam {beam}.", "increase --beam or decrease --count"
        )
    options = SamplingConfig.checked({**given, "samples": 1 if beam else number_of_texts}, "sampling")
    generator = load_generator(
        run,
        ensemble=ensemble or (),
        space=cast("Space", ensemble_space),
        checkpoint=checkpoint,
        device=device,
        search=search_options(set_ or ()),
    )
    prompts = lines(file) if file else iter([prompt])
    number = 0
    while chunk := list(islice(prompts, _CHUNK_PROMPTS)):
        if beam:
            outputs = generator.beam(chunk, beam, nbest=number_of_texts, max_length=max_length)
        else:
            outputs = generator.sample(chunk, options, max_length=max_length)
        for text, hypotheses in zip(chunk, outputs, strict=True):
            number += 1
            if json_:
                write_json_line(sys.stdout, _as_dict(text, hypotheses))
                continue
            for line in _plain(hypotheses, number if file else None):
                print(line)


def _plain(hypotheses: list[Hypothesis], number: int | None) -> Iterator[str]:
    for hypothesis in hypotheses:
        text = hypothesis.text.replace("\n", " ") + ("" if hypothesis.finished else " …")
        yield text if number is None else f"{number}\t{text}"


def _as_dict(prompt: str, hypotheses: list[Hypothesis]) -> dict[str, Any]:
    names = ("text", "log_prob", "tokens", "token_log_probs", "finished")
    texts = [{name: asdict(hypothesis)[name] for name in names} for hypothesis in hypotheses]
    return {"prompt": prompt, "texts": texts}
