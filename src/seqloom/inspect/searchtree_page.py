"""Search tree as a self-contained web page, which works offline."""

from __future__ import annotations

from html import escape

from seqloom.inspect.labels import labels, readable
from seqloom.inspect.searchtree import SearchTree
from seqloom.inspect.searchtree_picture import FAR, NEAR, NODE_STYLES, Place, margin_text, number, places
from seqloom.strict_json import json_text

_COLUMN, _ROW = 124, 42  # pixels
_BOX = (96, 34)
_BARS = 90  # pixels, height of the bars below the tree

_STYLE = """
:root { color-scheme: light; font: 15px/1.45 system-ui, sans-serif; color: #1c2733; }
body { margin: 1.5rem 2rem 8rem; }
h1 { font-size: 1.15rem; margin: 0 0 .2rem; }
p { margin: .2rem 0 .9rem; max-width: 60rem; color: #4a5663; }
.tokens { display: flex; flex-wrap: wrap; gap: 4px; margin: .3rem 0 1rem; }
.tokens span { border: 1px solid #d9dde2; border-radius: 6px; padding: 1px 8px; }
.scroll { overflow-x: auto; }
.legend span { display: inline-block; border: 2px solid; border-radius: 6px; padding: 0 8px; }
svg text { font: 13px system-ui, sans-serif; text-anchor: middle; }
svg .small { font-size: 10px; }
svg .edge { fill: none; }
svg g.node { cursor: default; outline: none; }
svg g.node.winner text { font-weight: 700; }
svg g.node:focus-visible rect, svg g.node.on rect { stroke: #e07b1a; stroke-width: 3; }
svg path.on { stroke: #e07b1a; stroke-width: 3; }
#facts { position: fixed; inset: auto 0 0 0; padding: .7rem 2rem; min-height: 3.2rem; background: #f6f8fa;
  border-top: 1px solid #d9dde2; }
#facts b { font-size: 1.05rem; }
"""

# Shows the numbers of the node under the pointer, its path, and the attention of its token.
_SCRIPT = """
const tree = JSON.parse(document.getElementById("tree").textContent);
const facts = document.getElementById("facts"), words = document.querySelectorAll(".tokens span");
const byId = new Map(tree.nodes.map(node => [node.id, node]));
const show = id => {
  document.querySelectorAll(".on").forEach(one => one.classList.remove("on"));
  const node = byId.get(id), tokens = [];
  for (let one = node; one.parent !== null; one = byId.get(one.parent)) {
    tokens.unshift(one.token);
    document.querySelectorAll(`[data-id="${one.id}"]`).forEach(part => part.classList.add("on"));
  }
  const text = tokens.join(" ").replaceAll("\\u2581", "\\u00b7");
  const [bold, line] = [document.createElement("b"), document.createElement("div")];
  bold.textContent = text;
  line.textContent = `${node.fate}, rank ${node.rank} · log P of the token ${node.log_prob.toFixed(3)} ` +
    `(P ${Math.exp(node.log_prob).toFixed(3)}) · log P so far ${node.total.toFixed(3)} · ` +
    `score ${node.score.toFixed(4)} · ${node.length} tokens` +
    (tree.groups > 1 ? ` · group ${node.group + 1}` : "");
  facts.replaceChildren(bold, line);
  const weights = byId.get(node.parent).attention;
  words.forEach((word, i) => {
    word.style.background = weights.length ? `rgba(224, 123, 26, ${weights[i]})` : "";
    word.title = weights.length ? weights[i].toFixed(3) : "";
  });
};
document.querySelectorAll("g.node[tabindex]").forEach(part => {
  const id = Number(part.dataset.id);
  part.addEventListener("mouseenter", () => show(id));
  part.addEventListener("focus", () => show(id));
});
"""


def tree_page(tree: SearchTree) -> str:
    """Return the HTML of a tree; hovering over a hypothesis shows its numbers, path and attention."""
    shown = {"winner": "output", "completed": "completed", "kept": "kept", "pruned": "pruned"}
    legend = "".join(
        f'<span style="background:{style.face};border-color:{style.edge};color:{style.text}">{text}</span>'
        for name, text in shown.items()
        for style in (NODE_STYLES[name],)
    )
    source = "".join(f"<span>{escape(label)}</span>" for label in labels(tree.source_tokens))
    data = json_text(tree.to_dict()).replace("<", "\\u003c")  # no </script> in it
    nearest = tree.nearest
    margin_note = (
        ""
        if nearest is None
        else f" Smallest margin: {margin_text(nearest)} in log P, at token {nearest.length}."
    )
    cut = "" if tree.finished else " The output was truncated at the maximum length."
    groups = f", in {tree.groups} groups" if tree.groups > 1 else ""
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Search: {escape(tree.source)}</title>
<style>{_STYLE}</style>
<h1>{escape(tree.source)} → {escape(tree.answer)}</h1>
<p>Beam {tree.beam}{groups}, score {number(tree.score)}.{cut}{margin_note}</p>
<p class="legend">{legend} with log P so far; best on top</p>
<div class="tokens">{source}</div>
<div class="scroll">{_drawing(tree)}</div>
<div id="facts">Point at a hypothesis to see its numbers here and its attention on the source.</div>
<script type="application/json" id="tree">{data}</script>
<script>{_SCRIPT}</script>
</html>
"""


def _drawing(tree: SearchTree) -> str:
    """Return the SVG of the tree and of the margins below it."""
    placed = places(tree)
    width = (1 + max((place.x for place in placed.values()), default=0)) * _COLUMN
    height = (1 + max((place.y for place in placed.values()), default=0)) * _ROW
    order = sorted(placed.values(), key=lambda place: (place.node.winner, place.node.fate != "pruned"))
    edges = [
        _edge(placed[place.node.parent], place)
        for place in order
        if place.node.parent is not None and place.node.parent in placed
    ]
    parts = [*edges, *map(_box, order), *_margins(tree, height + _BARS)]
    size = f'width="{width:g}" height="{height + _BARS + 8:g}"'
    return f'<svg {size} role="img">{"".join(parts)}</svg>'


def _center(place: Place) -> tuple[float, float]:
    return (place.x + 0.5) * _COLUMN, (place.y + 0.5) * _ROW


def _edge(parent: Place, child: Place) -> str:
    (x, y), (to_x, to_y) = _center(parent), _center(child)
    x, to_x = x + _BOX[0] / 2, to_x - _BOX[0] / 2
    middle, style = (x + to_x) / 2, child.style
    curve = f"M{x:g} {y:g}C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}"
    colours = f'stroke="{style.edge}" stroke-width="{style.width}"'
    return f'<path class="edge" data-id="{child.node.id}" d="{curve}" {colours}/>'


def _box(place: Place) -> str:
    (x, y), (width, height), style, node = _center(place), _BOX, place.style, place.node
    size = f'x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width}" height="{height}" rx="6"'
    frame = f'<rect {size} fill="{style.face}" stroke="{style.edge}" stroke-width="1.4"/>'
    if node.parent is None:
        return (
            f'<g class="node">{frame}<text x="{x:g}" y="{y + 4:g}" fill="{style.text}">{place.label}</text></g>'
        )
    hint = f"{readable(node.token)}: {node.fate}, rank {node.rank}, log P {number(node.log_prob)}"
    return (
        f'<g class="node {"winner" if node.winner else node.fate}" data-id="{node.id}" tabindex="0">'
        f"<title>{escape(hint)}</title>{frame}"
        f'<text x="{x:g}" y="{y - 1:g}" fill="{style.text}">{escape(place.label)}</text>'
        f'<text class="small" x="{x:g}" y="{y + 12:g}" fill="{style.text}">{number(node.total)}</text></g>'
    )


def _margins(tree: SearchTree, bottom: float) -> list[str]:
    """Return a bar per length: the margin of the output in log P over the best pruned hypothesis."""
    largest = max((one.margin for one in tree.survival if one.margin is not None), default=0.0) or 1.0
    parts = [f'<text class="small" x="{_COLUMN / 2}" y="{bottom:g}" fill="#4a5663">margin in log P</text>']
    for one in tree.survival:
        x = (one.length + 0.5) * _COLUMN
        bar_height = max(0.0, one.margin or 0.0) / largest * (_BARS - 30)
        colour = NEAR if one == tree.nearest else FAR
        bar = f'x="{x - 30:g}" y="{bottom - bar_height:g}" width="60" height="{bar_height:g}" fill="{colour}"'
        label = f'x="{x:g}" y="{bottom - bar_height - 4:g}"'
        parts.append(f'<rect {bar}/><text class="small" {label}>{margin_text(one)}</text>')
    return parts
