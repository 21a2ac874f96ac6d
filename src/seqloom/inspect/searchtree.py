"""Search tree of one output: kept, completed and pruned hypotheses, and the margins of the winner."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from seqloom.decode.config import SearchConfig
from seqloom.decode.exact import Problem
from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.pruned_model import PrunedModel, enough_to_rank
from seqloom.decode.reference import Decision, reference_beam_search
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.labels import END, readable
from seqloom.inspect.picture import SUFFIXES, Style
from seqloom.types import EOS, DependencyTree, Request

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERSION = 1  # of the document
_PRUNED = 2  # x group width: number of pruned continuations per step that are recorded, best first

Path = tuple[int, tuple[int, ...]]  # group and tokens of a hypothesis


@dataclass(frozen=True)
class Node:
    """Hypothesis: its parent plus one token."""

    id: int
    parent: int | None  # None: empty hypothesis
    group: int
    length: int  # in tokens, EOS included
    token: str
    log_prob: float  # of the token
    total: float  # log P of all tokens
    score: float  # final score, as if the hypothesis ended here
    rank: int  # from 1, among all continuations of its group at this length
    fate: str  # kept, completed or pruned; start for the root of a group
    attention: tuple[float, ...] = ()  # of the step that continues this hypothesis
    winner: bool = False  # on the path of the output


@dataclass(frozen=True)
class Survival:
    """Margin by which the output survived pruning at one length."""

    length: int
    token: str
    rank: int
    margin: float | None  # in log P, over the hypothesis that would have replaced it; None: there was none


@dataclass(frozen=True)
class SearchTree(Inspection):
    """Search from the roots, one per group, to the output. Parents precede their children."""

    formats = (".html", ".json", *SUFFIXES)

    source: str
    answer: str
    finished: bool
    score: float
    source_tokens: tuple[str, ...]  # EOS included
    beam: int
    groups: int
    nodes: tuple[Node, ...]
    survival: tuple[Survival, ...]

    @property
    def winner(self) -> list[Node]:
        """Path of the output, without the root."""
        return [node for node in self.nodes if node.winner and node.parent is not None]

    @property
    def nearest(self) -> Survival | None:
        """Step with the smallest margin, where the output was nearly pruned."""
        risky = [one for one in self.survival if one.margin is not None]
        return min(risky, key=lambda one: one.margin or 0.0, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the entire tree, with rounded numbers."""
        facts = _rounded(asdict(self))
        nearest = self.nearest
        return {
            "view": "search",
            "version": VERSION,
            **facts,
            "nearly_lost_at": None if nearest is None else nearest.length,
        }

    def _title(self) -> str:
        return f"Search with beam {self.beam}: {readable(self.source)}\n→ {readable(self.answer)}"

    def _size(self) -> tuple[float, float]:
        from seqloom.inspect.searchtree_picture import page_size

        return page_size(self)

    def _draw(self, figure: Figure, style: Style) -> None:
        from seqloom.inspect.searchtree_picture import draw_tree

        draw_tree(self, figure, style)


def problem_of(translator: TorchTranslator, request: Request, search: SearchConfig) -> Problem:
    """Return the search problem of a non-empty line."""
    if search.require:
        raise SeqloomError(
            "A search with required words cannot be shown as a tree: it has many beams.",
            "remove search.require",
        )
    return translator.problem(request, search)


def search_tree(
    translator: TorchTranslator,
    line: str,
    *,
    beam: int | None = None,
    heads: DependencyTree | None = None,
    prefix: str = "",
) -> SearchTree:
    """Return the search tree of a line, from the reference search, which defines the result of the fast one."""
    search = translator.search if beam is None else translator.search.model_copy(update={"beam": beam})
    search = SearchConfig.checked(search.model_dump(), "search")
    ids = translator.tokenizers.source.encode(line)
    if not ids:
        return SearchTree(line, "", True, 0.0, (END,), search.beam, search.groups, (), ())
    problem = problem_of(translator, Request(line, prefix=prefix, tree=heads), search)
    recorder = _TreeRecorder(translator, problem.plan, len(ids) + 1)
    shown = (2 + _PRUNED) * problem.plan.width  # kept, completed and pruned
    model = PrunedModel(
        problem.model,
        most=enough_to_rank(problem.plan, shown, problem.max_length),
        always=[token for prefix_tokens in problem.plan.rules.prefixes for token in prefix_tokens],
    )
    found = reference_beam_search(
        model, problem.sentence, problem.plan, max_length=problem.max_length, watch=recorder.watch
    )
    if not found:
        raise SeqloomError(
            f"No output for {line!r} satisfies the model and the search options.",
            "relax search.forbid, search.no_repeat or search.min_length, or remove the prefix",
        )
    nodes, survival = recorder.finish(found[0])
    return SearchTree(
        source=line,
        answer=translator.tokenizers.target.decode(found[0].tokens),
        finished=found[0].finished,
        score=found[0].score,
        source_tokens=(*translator.tokenizers.source.pieces(ids), END),
        beam=search.beam,
        groups=search.groups,
        nodes=nodes,
        survival=survival,
    )


class _TreeRecorder:
    """Recorder of the decisions of a running search."""

    def __init__(self, translator: TorchTranslator, plan: BeamOptions, source_length: int) -> None:
        self._pieces = translator.tokenizers.target.pieces
        self._plan = plan
        self._source_length = source_length
        self._nodes: dict[Path, Node] = {}
        self._pruned: Counter[tuple[int, int]] = Counter()  # (length, group) → number of pruned continuations
        self._ended: dict[Path, bool] = {}
        self._values: dict[Path, float] = {}  # sort key of the continuations of a step
        self._kept: defaultdict[int, list[Path]] = defaultdict(list)  # length → kept hypotheses
        for group in range(plan.groups):
            self._nodes[group, ()] = Node(group, None, group, 0, "", 0.0, 0.0, 0.0, 1, "start")

    def watch(self, seen: Decision) -> None:
        """Add a continuation, unless enough better pruned ones are already in the tree."""
        partial, path = seen.partial, (seen.group, seen.partial.tokens)
        if seen.fate == "pruned":
            self._pruned[seen.length, seen.group] += 1
            if self._pruned[seen.length, seen.group] > _PRUNED * self._plan.width:
                return
        parent = self._nodes[seen.group, partial.tokens[:-1]]
        if partial.attention and not parent.attention:
            attention = tuple(partial.attention[-1][: self._source_length].tolist())
            self._nodes[seen.group, partial.tokens[:-1]] = replace(parent, attention=attention)
        self._nodes[path] = Node(
            id=len(self._nodes),
            parent=parent.id,
            group=seen.group,
            length=seen.length,
            token=END if partial.ended else self._pieces([partial.tokens[-1]])[0],
            log_prob=partial.log_probs[-1],
            total=partial.total,
            score=partial.score(self._plan.ranking, self._source_length),
            rank=seen.rank + 1,
            fate=seen.fate,
        )
        taken = sum(
            group < seen.group and tokens[-1] == partial.tokens[-1] for group, tokens in self._kept[seen.length]
        )
        self._values[path] = partial.total - self._plan.diversity * taken
        self._ended[path] = partial.ended
        if seen.fate == "kept":
            self._kept[seen.length].append(path)

    def finish(self, best: DecodedSequence) -> tuple[tuple[Node, ...], tuple[Survival, ...]]:
        """Return all nodes, with the path of the output marked, and the margins of the output."""
        tokens = (*best.tokens, EOS) if best.finished else tuple(best.tokens)
        fate = "completed" if best.finished else "kept"
        group = next(
            g
            for g in range(self._plan.groups)
            if (node := self._nodes.get((g, tokens))) is not None and node.fate == fate
        )
        for length in range(len(tokens) + 1):
            path = group, tokens[:length]
            self._nodes[path] = replace(self._nodes[path], winner=True)
        survival = [self._survival((group, tokens[:length])) for length in range(1, len(tokens) + 1)]
        return tuple(self._nodes.values()), tuple(survival)

    def _survival(self, path: Path) -> Survival:
        """Return the margin of a hypothesis over the best one that would have replaced it.

        Of the open continuations the best w are kept, so its rival is the best pruned one; a finished
        hypothesis must be among the best w of all.
        """
        node = self._nodes[path]
        rivals = (
            other
            for other, one in self._nodes.items()
            if (one.group, one.length) == (node.group, node.length)
            and (
                one.rank > self._plan.width
                if self._ended[path]
                else one.fate == "pruned" and not self._ended[other]
            )
        )
        first = max((self._values[rival] for rival in rivals), default=None)
        margin = None if first is None else self._values[path] - first
        return Survival(node.length, node.token, node.rank, margin)


def _rounded(value: Any) -> Any:
    """Return the value with all floats rounded to six decimals."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return (
        [_rounded(one) for one in value]
        if isinstance(value, Sequence) and not isinstance(value, str)
        else value
    )
