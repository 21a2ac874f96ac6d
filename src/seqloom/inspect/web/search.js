// The search tree: kept, completed and pruned hypotheses, step by step.

import { html, nothing, render, svg } from "./lit-html.js";
import { figureOf, slider } from "./parts.js";
import { decimal, labelsOf, level, readableText, shortText, tokenLabel } from "./text.js";
import { drawVerdict } from "./verdict.js";

const COLUMN = 124;
const ROW = 42;
const [WIDE, HIGH] = [100, 34];
const BARS = 84;
const layouts = new WeakMap();

export function drawSearch(doc, ui, set, act, more = {}) {
  if (!doc.nodes.length) return html`<p class="note">The text is empty.</p>`;
  const place = layout(doc);
  const step = Math.min(ui.step ?? place.steps, place.steps);
  const nearest = doc.survival.find(one => one.length === doc.nearly_lost_at);
  const node = place.byId.get(ui.node) ?? null;
  return html`
    <div class="controls no-print">
      ${act ? slider("Beam", ui.beam ?? doc.beam, 1, 12, beam => act.beam(beam)) : nothing}
      ${slider("Step", step, 1, place.steps, value => set({ step: value }), `${step} of ${place.steps}`)}
      <label class="check"><input type="checkbox" .checked=${!ui.hidePruned} @change=${event => set({ hidePruned: !event.target.checked })}> Pruned hypotheses</label>
    </div>
    <p class="verdict"><strong dir="auto">${readableText(doc.answer) || "(empty)"}</strong> · beam ${doc.beam}${doc.groups > 1 ? ` in ${doc.groups} groups` : ""}, score ${decimal(doc.score, 4)}.${doc.finished ? "" : " The output was cut at the maximum length."}
      ${nearest ? html` The output was closest to being pruned at token ${nearest.length}, “<bdi>${tokenLabel(nearest.token)}</bdi>”: by ${decimal(nearest.margin)} in log P.` : " No continuation was pruned that could have replaced it."}</p>
    ${act ? candidateForm(doc, ui, act) : nothing}
    ${more.verdict ? drawVerdict(more.verdict, ui, set) : nothing}
    ${figureOf({
      name: "search", title: `Search with beam ${doc.beam}`,
      description: "A column per step, best hypothesis on top. Each box: the token and log P so far. Below: the margin of the output over the best pruned hypothesis.",
      picture: html`<div class="scroll" tabindex="0" role="region" aria-label="Search tree">${tree(doc, place, step, node, ui, set)}</div>`,
      table: () => nodeTable(doc, step),
    }, ui, set)}
    <p class="legend"><span class="key winner">output</span><span class="key completed">completed</span><span class="key kept">kept</span><span class="key pruned">pruned</span></p>
    ${facts(doc, place, node)}`;
}

// A translation of the user's own.
function candidateForm(doc, ui, act) {
  const judge = event => {
    event.preventDefault();
    act.judge(new FormData(event.target).get("candidate").trim());
  };
  return html`<section class="no-print" aria-label="Your translation"><form class="typed" @submit=${judge}><label>Why not <input class="long" aria-label="Your translation" type="text" name="candidate" autocomplete="off" dir="auto" .value=${ui.candidate ?? ""} placeholder=${readableText(doc.answer)}></label>
      <button>Model or search?</button>
      ${ui.candidate ? html`<button type="button" @click=${() => act.judge("")}>Clear</button>` : nothing}</form></section>`;
}

function layout(doc) {
  if (layouts.has(doc)) return layouts.get(doc);
  const byId = new Map(doc.nodes.map(node => [node.id, node]));
  const columns = new Map();
  for (const node of doc.nodes) {
    const key = `${node.group},${node.length}`;
    if (!columns.has(key)) columns.set(key, []);
    columns.get(key).push(node);
  }
  const heights = new Array(doc.groups).fill(1);
  for (const column of columns.values()) heights[column[0].group] = Math.max(heights[column[0].group], column.length);
  const tops = heights.map((_, group) => heights.slice(0, group).reduce((sum, height) => sum + height, 0));
  const places = new Map();
  for (const column of columns.values()) {
    column.sort((a, b) => (a.fate === "pruned") - (b.fate === "pruned") || a.rank - b.rank);
    column.forEach((node, row) => places.set(node.id, [node.length * COLUMN + 58, (tops[node.group] + row) * ROW + 24]));
  }
  const steps = Math.max(...doc.nodes.map(node => node.length));
  const found = { byId, places, steps, height: heights.reduce((sum, height) => sum + height, 0) * ROW + 10 };
  found.order = [...doc.nodes].sort((a, b) => a.winner - b.winner || (b.fate === "pruned") - (a.fate === "pruned"));
  found.columns = Array.from({ length: steps + 1 }, (_, length) => ({ nodes: found.order.filter(one => one.length === length) }));
  layouts.set(doc, found);
  return found;
}

function pathOf(place, node) {
  const path = [];
  for (let one = node; one && one.parent !== null; one = place.byId.get(one.parent)) path.unshift(one);
  return path;
}

function tree(doc, place, step, node, ui, set) {
  const onPath = new Set(pathOf(place, node).map(one => one.id));
  const [width, height] = [(place.steps + 1) * COLUMN, place.height + BARS];
  const move = event => {
    const target = neighbour(place, node ?? doc.nodes[0], event.key, step);
    if (!target) return;
    event.preventDefault();
    event.stopPropagation();
    set({ node: target.id });
  };
  return html`<svg class="tree" viewBox="0 0 ${width} ${height}" width=${width} height=${height} role="img" tabindex="0" aria-label=${`Search tree, ${doc.nodes.length} hypotheses`}
    @keydown=${move}>
    ${place.columns.slice(0, step + 1).map(one => columnOf(place, one, ui.hidePruned, onPath, set))}
    ${margins(doc, place, step)}
  </svg>`;
}

// The nodes of one length in an element of their own, which is drawn again only if they change.
function columnOf(place, column, hidePruned, onPath, set) {
  const seen = column.nodes.filter(one => !hidePruned || one.fate !== "pruned");
  const key = `${Boolean(hidePruned)} ${seen.filter(one => onPath.has(one.id)).map(one => one.id)}`;
  if (column.key === key && column.set === set) return column.element;
  column.element ??= document.createElementNS("http://www.w3.org/2000/svg", "g");
  render(svg`${seen.map(one => one.parent === null ? nothing : edge(place, one, onPath.has(one.id)))}
    ${seen.map(one => box(place, one, onPath.has(one.id), set))}`, column.element);
  Object.assign(column, { key, set });
  return column.element;
}

function edge(place, node, on) {
  const [x, y] = place.places.get(node.parent);
  const [toX, toY] = place.places.get(node.id);
  const [from, to] = [x + WIDE / 2, toX - WIDE / 2];
  const middle = (from + to) / 2;
  return svg`<path class=${`edge ${look(node)}${on ? " on" : ""}`} d=${`M${from} ${y}C${middle} ${y} ${middle} ${toY} ${to} ${toY}`}></path>`;
}

function look(node) {
  return node.winner ? "winner" : node.fate;
}

function box(place, node, on, set) {
  const [x, y] = place.places.get(node.id);
  if (node.parent === null) {
    return svg`<g class="node start"><rect x=${x - WIDE / 2} y=${y - HIGH / 2} width=${WIDE} height=${HIGH} rx="7"></rect><text x=${x} y=${y + 5}>start</text></g>`;
  }
  const mark = node.fate === "completed" ? "■ " : "";
  return svg`<g class=${`node ${look(node)}${on ? " on" : ""}`} @pointerenter=${() => set({ node: node.id })} @click=${() => set({ node: node.id })}>
    <rect x=${x - WIDE / 2} y=${y - HIGH / 2} width=${WIDE} height=${HIGH} rx="7"></rect>
    <text x=${x} y=${y - 1}>${mark}${shortText(tokenLabel(node.token), 12)}</text>
    <text class="small" x=${x} y=${y + 12}>${decimal(node.total)}</text></g>`;
}

// Below the tree, a bar per length: the margin of the output.
function margins(doc, place, step) {
  const most = Math.max(0.01, ...doc.survival.map(one => one.margin ?? 0));
  const bottom = place.height + BARS - 16;
  return svg`<text class="small axis" x="58" y=${bottom - 4}>margin</text>${doc.survival.filter(one => one.length <= step).map(one => {
    const tall = Math.max(1, (Math.max(0, one.margin ?? 0) / most) * (BARS - 42));
    const x = one.length * COLUMN + 58;
    const nearest = one.length === doc.nearly_lost_at;
    return svg`<g class=${`margin${nearest ? " nearest" : ""}`}><rect x=${x - 26} y=${bottom - tall} width="52" height=${tall}></rect>
      <text class="small" x=${x} y=${bottom - tall - 4}>${one.margin === null ? "∞" : decimal(one.margin)}</text>
      ${nearest ? svg`<text class="small" x=${x} y=${bottom + 12}>closest</text>` : nothing}</g>`;
  })}`;
}

// The hypothesis to which an arrow key leads.
function neighbour(place, node, key, step) {
  if (key === "ArrowLeft") return node.parent === null ? null : place.byId.get(node.parent);
  const near = (candidates) => candidates.sort((a, b) => b.winner - a.winner || a.rank - b.rank)[0];
  if (key === "ArrowRight") return near(place.order.filter(one => one.parent === node.id && one.length <= step));
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  const y = place.places.get(node.id)[1];
  const down = key === "ArrowDown";
  return place.order.filter(one => one.length === node.length && (down ? place.places.get(one.id)[1] > y : place.places.get(one.id)[1] < y))
    .sort((a, b) => Math.abs(place.places.get(a.id)[1] - y) - Math.abs(place.places.get(b.id)[1] - y))[0];
}

function facts(doc, place, node) {
  if (!node || node.parent === null) return html`<p class="status" role="status">Point at a hypothesis, or use the arrow keys, to see its numbers and its attention.</p>`;
  const path = pathOf(place, node).map(one => one.token);
  const weights = place.byId.get(node.parent).attention;
  return html`<div class="status" role="status"><p><strong><bdi>${labelsOf(path).join(" ")}</bdi></strong></p>
    <p>${node.fate}, rank ${node.rank} · log P of the token ${decimal(node.log_prob, 3)} (P ${Math.exp(node.log_prob).toFixed(3)}) · log P so far ${decimal(node.total, 3)} · score ${decimal(node.score, 4)} · ${node.length} tokens</p>
    ${weights.length ? html`<div class="words"><span class="muted">attention of this token</span> ${labelsOf(doc.source_tokens).map((label, i) =>
      html`<span class=${`word w${level(weights[i] ?? 0)}`}><bdi>${label}</bdi><small>${decimal(weights[i] ?? 0)}</small></span>`)}</div>` : nothing}</div>`;
}

function nodeTable(doc, step) {
  const rows = doc.nodes.filter(node => node.parent !== null && node.length <= step).map(node =>
    [`${node.length}`, tokenLabel(node.token), node.winner ? "output" : node.fate, node.rank, decimal(node.log_prob, 4), decimal(node.total, 4), decimal(node.score, 4)]);
  return { caption: "Hypotheses", head: ["step", "token", "fate", "rank", "log P", "total", "score"], rows };
}
