"""Inspection of models, runs and searches, as data and as figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import lazily

__all__ = [
    "attention_picture",
    "describe",
    "diagnose",
    "gate_trace",
    "head_attention",
    "measure_gradients",
    "predict",
    "search_errors",
    "search_tree",
    "self_attention",
    "stack_search",
]

if TYPE_CHECKING:
    from seqloom.inspect.attention import attention_picture
    from seqloom.inspect.cost import predict
    from seqloom.inspect.doctor import diagnose
    from seqloom.inspect.facts import describe
    from seqloom.inspect.gates import gate_trace
    from seqloom.inspect.gradients import measure_gradients
    from seqloom.inspect.heads import head_attention
    from seqloom.inspect.searcherror import search_errors
    from seqloom.inspect.searchtree import search_tree
    from seqloom.inspect.selfattention import self_attention
    from seqloom.inspect.stacks import stack_search

__getattr__, __dir__ = lazily(
    "seqloom.inspect",
    {
        "attention_picture": "seqloom.inspect.attention",
        "describe": "seqloom.inspect.facts",
        "diagnose": "seqloom.inspect.doctor",
        "gate_trace": "seqloom.inspect.gates",
        "head_attention": "seqloom.inspect.heads",
        "measure_gradients": "seqloom.inspect.gradients",
        "predict": "seqloom.inspect.cost",
        "search_errors": "seqloom.inspect.searcherror",
        "search_tree": "seqloom.inspect.searchtree",
        "self_attention": "seqloom.inspect.selfattention",
        "stack_search": "seqloom.inspect.stacks",
    },
)
