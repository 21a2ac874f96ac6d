// Influence of source tokens by gradients; for a model without attention, what is left of each in the decoder's vector.

import { html, nothing, svg } from "./lit-html.js";
import { figureOf } from "./parts.js";
import { heatmap, largest } from "./heatmap.js";
import { decimal, labelsOf, shortText } from "./text.js";

const LEFT_ROW = 26;

export function drawInfluence(doc, ui, set) {
  const labels = { source: labelsOf(doc.source), target: labelsOf(doc.target) };
  const at = ui.cell ?? null;
  const top = largest(doc.products, 1e-6);
  const title = "Gradient × input of each source token for each output token";
  return html`
    ${doc.left ? bottleneck(doc, labels.source, ui, set) : nothing}
    ${figureOf({
      name: "influence", title,
      description: `Output tokens are rows, source tokens are columns. Blue: the embedding of the source token raises log P of the output token; orange with a minus: it lowers it. The darkest cell is ${decimal(top, 3)}.`,
      picture: html`<div class="scroll">${heatmap({ rows: doc.products, top, columnLabels: labels.source, rowLabels: labels.target, title, at, signs: true, point: cell => set({ cell }) })}</div>`,
      table: () => ({ caption: title, head: ["", ...labels.source], rows: doc.products.map((row, t) => [labels.target[t], ...row.map(value => Number(value.toFixed(4)))]) }),
    }, ui, set)}
    <p class="status" role="status">${at?.row != null && at?.column != null
      ? html`<bdi>${labels.target[at.row]}</bdi> ← <bdi>${labels.source[at.column]}</bdi>: <strong>${decimal(doc.products[at.row]?.[at.column] ?? 0, 4)}</strong>` : "Point at a cell, or use the arrow keys."}</p>
    <p class="note">Gradient × input is a linear estimate around this one sentence: it shows which embeddings the output is sensitive to, and can miss what
      saturates. Attention weights are no explanation either. Where both agree, look closer; where they differ, change the source and see.</p>`;
}

function bottleneck(doc, labels, ui, set) {
  const most = Math.max(...doc.left, 1e-9);
  const title = "What is left of each source token in the vector that the decoder gets";
  const height = LEFT_ROW * labels.length + 4;
  return figureOf({
    name: "left", title,
    description: "This model has no attention: all that the decoder knows of the source is one vector. A bar is the norm of the derivative of this vector by the embedding of the token. A short bar: whatever the token was, the vector would be almost the same.",
    picture: html`<svg class="chart left" viewBox="0 0 560 ${height}" width="560" height=${height} role="img" aria-label=${title}>
      ${labels.map((label, i) => svg`<text x="132" y=${LEFT_ROW * i + 18} text-anchor="end">${shortText(label, 16)}</text>
        <rect class="bar-left" x="140" y=${LEFT_ROW * i + 4} width=${Math.max(1, 350 * doc.left[i] / most)} height=${LEFT_ROW - 8}></rect>
        <text class="small" x=${146 + 350 * doc.left[i] / most} y=${LEFT_ROW * i + 18}>${decimal(doc.left[i])}</text>`)}
    </svg>`,
    table: () => ({ caption: title, head: ["token", "norm", "of the largest"], rows: labels.map((label, i) => [label, Number(doc.left[i].toFixed(4)), `${Math.round(100 * doc.left[i] / most)} %`]) }),
  }, ui, set);
}
