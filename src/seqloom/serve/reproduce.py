"""The command line that gives the output of a request."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from seqloom.decode.config import SamplingConfig
from seqloom.serve.jobs import DecodingTask, Item, ModelSpec

_LONGEST = 4000  # characters of the input that the command contains


def translate_command(spec: ModelSpec, task: DecodingTask, items: Sequence[Item]) -> str:
    """Return a command that prints the outputs of the items as JSON.

    Each segment is a line of its input. An input that is too long for a command line is `segments.tsv` in its
    place, with the sources of all segments and, if there are any, their prefixes and required phrases.
    """
    options = ["--json"]
    if task.sampling is not None:
        options += _sampling(task.sampling)
    elif task.beam is not None:
        options.append(f"--beam {task.beam}")
    if task.nbest > 1:
        options.append(f"--nbest {task.nbest}")
    if task.alignment:
        options.append("--alignment")
    if task.forbid:
        words = ", ".join(f'"{word}"' for word in task.forbid)
        options.append(f"--set {shlex.quote(f'search.forbid=[{words}]')}")
    if task.max_length is not None:
        options.append(f"--set search.longest={task.max_length}")
    is_table = any(one.prefix or one.required for one in items)
    if is_table:
        options.append("--format tsv --source-column 1 --prefix-column 2 --require-column 3")
    lines = [_row(one) if is_table else one.source for one in items]
    command = " ".join(["seqloom translate", spec.command(), *options])
    if sum(map(len, lines)) > _LONGEST:
        return f"{command} {'segments.tsv' if is_table else 'segments.txt'}"
    texts = " ".join(shlex.quote(line) for line in lines)
    return f"printf '%s\\n' {texts} | {command}"


def _row(item: Item) -> str:
    phrases = (one if isinstance(one, str) else one[0] for one in item.required)
    return "\t".join([item.source, item.prefix, ";".join(phrases)])


def _sampling(options: SamplingConfig) -> list[str]:
    default = SamplingConfig.model_validate({})
    given = ["--sample", f"--seed {options.seed}"]
    if options.samples > 1:
        given.append(f"--nbest {options.samples}")
    for name in ("temperature", "top_k", "top_p", "min_p", "typical"):
        if (value := getattr(options, name)) != getattr(default, name):
            given.append(f"--{name.replace('_', '-')} {value:g}")
    return given
