"""`seqloom translate --trace`: search trees of up to 100 lines in one file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:
    from seqloom.types import Example

MAX_LINES = 100  # a tree takes about 30 kB, and the search that records it is slow


def engine_to_trace(path: Path, engine: str, *, is_plain: bool) -> str:
    """Return the engine that can record its search; raise an error if the search cannot be traced."""
    from seqloom.outputs import check_can_write

    check_can_write(path)
    if not is_plain:
        raise SeqloomError(
            "--trace needs a beam search with one model, without --ensemble, --sample and --mbr.",
            "leave out --trace",
        )
    if engine == "ctranslate2":
        raise SeqloomError(
            "--trace needs --engine torch; CTranslate2 does not expose its search.", "leave out --engine"
        )
    return "torch"


def trace_searches(path: Path, translator: object, examples: Iterator[Example]) -> Iterator[Example]:
    """Write a JSON list with the search tree of each line; return an iterator over the same lines."""
    from seqloom.decode.torch_translator import TorchTranslator
    from seqloom.inspect.heads import head_attention
    from seqloom.inspect.searchtree import search_tree
    from seqloom.outputs import write_output
    from seqloom.progress import counter

    if not isinstance(translator, TorchTranslator):
        raise SeqloomError(
            "--trace needs a model that generates token by token.",
            "for a phrase model, use seqloom inspect stacks",
        )
    lines = list(islice(examples, MAX_LINES + 1))
    if len(lines) > MAX_LINES:
        raise SeqloomError(
            f"--trace accepts at most {MAX_LINES} lines, and the input has more.",
            "give only the lines that you want to trace",
        )
    trees = []
    with counter("traced", total=len(lines)) as advance:
        for number, line in enumerate(lines, 1):
            tree = search_tree(translator, line.source, heads=line.heads, prefix=line.target or "")
            heads = head_attention(translator, line.source, tree.answer, heads=line.heads)
            attention = {"attention": heads.to_dict()} if heads else {}
            trees.append(json_text({"line": number, **tree.to_dict(), **attention}))
            advance(1)
    write_output(path, "[\n" + ",\n".join(trees) + "\n]\n")
    return iter(lines)
