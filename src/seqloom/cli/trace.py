"""`seqloom translate --trace`: the search trees of a few lines in one file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:
    from seqloom.types import Example

MOST_LINES = 100  # a tree takes some 30 kB, and the search that can be watched is slow


def engine_to_trace(path: Path, engine: str, *, is_plain: bool) -> str:
    """The engine whose search can be watched; what cannot be traced is an error before any work."""
    from seqloom.outputs import check_can_write

    check_can_write(path)
    if not is_plain:
        raise SeqloomError(
            "--trace shows the beam of one model; ensembles, samples and least risk have no such tree.",
            "leave it out",
        )
    if engine == "ctranslate2":
        raise SeqloomError(
            "--trace needs the engine torch: CTranslate2 cannot be watched.", "leave --engine out"
        )
    return "torch"


def trace_searches(path: Path, translator: object, examples: Iterator[Example]) -> Iterator[Example]:
    """Writes a JSON list with the tree of every line, and hands the lines on."""
    from seqloom.decode.torch_translator import TorchTranslator
    from seqloom.inspect.heads import head_attention
    from seqloom.inspect.searchtree import search_tree
    from seqloom.outputs import write_output
    from seqloom.progress import counter

    if not isinstance(translator, TorchTranslator):
        raise SeqloomError(
            "--trace needs a model that generates token by token; this one has a search of its own.",
            "see seqloom inspect stacks",
        )
    lines = list(islice(examples, MOST_LINES + 1))
    if len(lines) > MOST_LINES:
        raise SeqloomError(
            f"--trace writes the search of at most {MOST_LINES} lines, and there are more.",
            "give the lines that you want to look at",
        )
    trees = []
    with counter("traced", total=len(lines)) as advance:
        for number, line in enumerate(lines, 1):
            tree = search_tree(translator, line.source, heads=line.heads, prefix=line.target or "")
            looked = head_attention(translator, line.source, tree.answer, heads=line.heads)
            attention = {"attention": looked.to_dict()} if looked else {}
            trees.append(json_text({"line": number, **tree.to_dict(), **attention}))
            advance(1)
    write_output(path, "[\n" + ",\n".join(trees) + "\n]\n")
    return iter(lines)
