// Attention: one map, all heads as thumbnails, words with lines.

import { html, nothing, svg } from "./lit-html.js";
import { choice, figureOf } from "./parts.js";
import { heatImage, heatmap, largest } from "./heatmap.js";
import { changeControls, drawIntervention } from "./intervention.js";
import { decimal, labelsOf, level, mergedWords } from "./text.js";

const SIDES = { cross: ["source", "output"], encoder: ["source", "source"], decoder: ["input", "input"] };
const means = new WeakMap();
const merged = new WeakMap();

export function drawAttention(doc, ui, set, act, more = {}) {
  const [columns, rows] = SIDES[doc.kind];
  const shown = shownWeights(doc, ui);
  const labels = { source: labelsOf(shown.source), target: labelsOf(shown.target) };
  const name = headName(doc, ui);
  const at = ui.cell ?? null;
  const point = cell => set({ cell: same(cell, at) ? at : cell });
  const top = largest(shown.rows);
  const title = `Attention of each ${rows} token to the ${columns}: ${name}`;
  return html`
    <div class="controls">
      ${choice("Drawing", [["map", "Map"], ["lines", "Lines"]], ui.drawing ?? "map", drawing => set({ drawing }))}
      <label class="check"><input type="checkbox" .checked=${Boolean(ui.words)} @change=${event => set({ words: event.target.checked, cell: null })}> Merge subwords</label>
    </div>
    <div class="attention">
      ${figureOf({
        name: "attention", title,
        description: `${rows[0].toUpperCase() + rows.slice(1)} tokens are rows, ${columns} tokens are columns; the darkest cell is ${decimal(top)}.`,
        picture: ui.drawing === "lines" ? lines(shown, labels, at, point, title, columns, rows)
          : heatmap({ rows: shown.rows, top, columnLabels: labels.source, rowLabels: labels.target, title, at, point }),
        table: () => weightTable(shown, labels, title),
      }, ui, set)}
      <div class="side">
        <p class="status" role="status">${status(shown, labels, at, columns, rows)}</p>
        ${words(`${rows}`, labels.target, at?.row, row => point({ row, column: null }), shown.rows.map(row => at?.column != null ? row[at.column] : 0))}
        ${words(`${columns}`, labels.source, at?.column, column => point({ row: null, column }), labels.source.map((_, s) => at?.row != null ? shown.rows[at.row]?.[s] ?? 0 : 0))}
        ${wall(doc, ui, set, more)}
        ${more.intervention && !act ? drawIntervention(more.intervention) : nothing}
        ${act && more.changeable && doc.kind === "cross" ? changeControls(doc, ui, set, more.intervention) : nothing}
        <p class="note">Attention weights show what a layer reads, not why the model chose a token: a token can depend on the source
          through other heads, other layers and the residual stream. Attention is not an explanation: compare it with gradient × input under Influence.</p>
      </div>
    </div>`;
}

function same(a, b) {
  return a?.row === b?.row && a?.column === b?.column;
}

export function headName(doc, ui) {
  const [layer, head] = ui.head ?? [];
  return layer === undefined || !doc.weights[layer]?.[head] ? "mean of all heads" : `layer ${layer + 1}, head ${head + 1}`;
}

function shownWeights(doc, ui) {
  const [layer, head] = ui.head ?? [];
  const rows = doc.weights[layer]?.[head] ?? meanOf(doc);
  if (!ui.words) return { source: doc.source, target: doc.target, rows };
  if (!merged.has(rows)) merged.set(rows, mergedWords(doc.source, doc.target, rows));
  return merged.get(rows);
}

function meanOf(doc) {
  if (!means.has(doc)) {
    const all = doc.weights.flat();
    means.set(doc, all[0].map((row, t) => row.map((_, s) => all.reduce((sum, rows) => sum + rows[t][s], 0) / all.length)));
  }
  return means.get(doc);
}

// The head with the lowest entropy: its rows are the nearest to one source token each.
export function sharpestHead(doc) {
  let best = [0, 0];
  doc.entropy.forEach((row, layer) => row.forEach((value, head) => {
    if (value < doc.entropy[best[0]][best[1]]) best = [layer, head];
  }));
  return best;
}

function wall(doc, ui, set, more) {
  const sharpest = sharpestHead(doc).join();
  const aligning = more.alignmentHead?.join();
  const chosen = ui.head?.join() ?? "";
  return html`<h2>Heads</h2>
    <div class="wall" role="group" aria-label="Heads">
      <button class="thumb mean" aria-pressed=${chosen === ""} @click=${() => set({ head: null })}>
        <svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true"><image href=${heatImage(meanOf(doc), largest(meanOf(doc)))} width="1" height="1" preserveAspectRatio="none"></image></svg>
        <span>mean</span></button>
      ${doc.weights.map((heads, layer) => heads.map((rows, head) => {
        const key = `${layer},${head}`;
        const marks = [key === sharpest ? "sharpest" : "", key === aligning ? "aligns" : "", (ui.off ?? []).some(one => one.join() === key) ? "off" : ""].filter(Boolean);
        return html`<button class="thumb" aria-pressed=${chosen === key} @click=${() => set({ head: [layer, head] })}
          aria-label=${`Layer ${layer + 1}, head ${head + 1}, entropy ${decimal(doc.entropy[layer][head])} nats ${marks.join(" ")}`}>
          <svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true"><image href=${heatImage(rows, largest(rows))} width="1" height="1" preserveAspectRatio="none"></image></svg>
          <span>${layer + 1}.${head + 1} <small>H ${decimal(doc.entropy[layer][head])}</small></span>
          ${marks.map(mark => html`<em>${mark}</em>`)}</button>`;
      }))}
    </div>
    <p class="muted small">layer.head and its mean entropy H in nats. Sharpest: the lowest H.${aligning ? " Aligns: chosen by evaluate-alignment --keep." : ""}</p>`;
}

function status(shown, labels, at, columns, rows) {
  if (at?.row != null && at?.column != null) {
    return html`<bdi>${labels.target[at.row]}</bdi> → <bdi>${labels.source[at.column]}</bdi>: <strong>${decimal(shown.rows[at.row]?.[at.column] ?? 0, 4)}</strong>`;
  }
  if (at?.row != null) return html`<bdi>${labels.target[at.row]}</bdi> attends to the shaded ${columns} tokens.`;
  if (at?.column != null) return html`The shaded ${rows} tokens attend to <bdi>${labels.source[at.column]}</bdi>.`;
  return `Point at a word or a cell.`;
}

function words(name, labels, on, point, weights) {
  return html`<div class="words"><span class="muted">${name}</span> ${labels.map((label, i) => html`<button
    class=${`word w${level(weights[i])}${on === i ? " on" : ""}`} @pointerenter=${() => point(i)} @focus=${() => point(i)} @click=${() => point(i)}
    ><bdi>${label}</bdi>${weights[i] > 0.005 ? html`<small>${decimal(weights[i])}</small>` : nothing}</button>`)}</div>`;
}

const GAP = 26;

function lines(shown, labels, at, point, title, columns, rows) {
  const height = 26 + GAP * Math.max(labels.source.length, labels.target.length);
  const drawn = [];
  shown.rows.forEach((row, t) => row.forEach((weight, s) => {
    const on = at == null || (at.row == null && at.column == null) || at.row === t || (at.row == null && at.column === s);
    if (weight >= 0.05 && on) drawn.push(svg`<line class="link" x1="180" y1=${32 + GAP * t} x2="360" y2=${32 + GAP * s} opacity=${Math.max(0.15, weight).toFixed(2)} stroke-width=${(0.8 + 4 * weight).toFixed(2)}></line>`);
  }));
  const label = (text, x, anchor, on, enter, i) => svg`<text class=${`link-label${on ? " on" : ""}`} x=${x} y=${36 + GAP * i} text-anchor=${anchor} @pointerenter=${enter}>${text}</text>`;
  return html`<svg class="lines" viewBox="0 0 540 ${height}" width="540" height=${height} role="img" aria-label=${title} @pointerleave=${() => point(null)}>
    <text class="side-name" x="172" y="12" text-anchor="end">${rows}</text><text class="side-name" x="368" y="12">${columns}</text>
    ${drawn}
    ${labels.target.map((text, t) => label(text, 172, "end", at?.row === t, () => point({ row: t, column: null }), t))}
    ${labels.source.map((text, s) => label(text, 368, "start", at?.column === s, () => point({ row: null, column: s }), s))}
  </svg>`;
}

function weightTable(shown, labels, title) {
  return { caption: title, head: ["", ...labels.source], rows: shown.rows.map((row, t) => [labels.target[t], ...row.map(value => Number(value.toFixed(4)))]) };
}
