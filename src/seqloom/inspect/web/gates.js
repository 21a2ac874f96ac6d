// Gates and states of recurrent layers over time.

import { html } from "./lit-html.js";
import { choice, figureOf } from "./parts.js";
import { heatmap, largest } from "./heatmap.js";
import { decimal, labelsOf } from "./text.js";

const turned = new WeakMap();

export function drawGates(doc, ui, set) {
  const number = Math.min(ui.gateLayer ?? 0, doc.layers.length - 1);
  const layer = doc.layers[number];
  const labels = labelsOf(layer.tokens);
  return html`
    <div class="controls">${choice("Layer", doc.layers.map((one, i) => [i, one.name]), number, gateLayer => set({ gateLayer, cell: null }))}</div>
    <div class="charts">${Object.entries(layer.units).map(([name, rows]) => {
      const isGate = name !== "cell" && name !== "state";
      const top = isGate ? 1 : largest(rows, 1e-6);
      const title = `${layer.name}: ${name}${isGate ? " gate" : ""}`;
      const [tokens, units] = [rows.length, rows[0].length];
      return figureOf({
        name: `gate-${number}-${name}`, title,
        description: `Units down, tokens across; from ${isGate ? "0" : decimal(-top)} to ${decimal(top)}${isGate ? "" : ", negative values in orange"}. Mean by token below.`,
        picture: html`${heatmap({ rows: transposed(rows), top, columnLabels: labels, rowLabels: new Array(units).fill(""), title, cell: Math.max(9, Math.min(26, Math.floor(420 / Math.max(tokens, units / 3)))) })}`,
        table: () => ({ caption: title, head: ["token", "mean", "least", "most"], rows: rows.map((row, t) => [labels[t],
          Number((row.reduce((sum, value) => sum + value, 0) / row.length).toFixed(4)), Number(Math.min(...row).toFixed(4)), Number(Math.max(...row).toFixed(4))]) }),
      }, ui, set);
    })}</div>`;
}

function transposed(rows) {
  if (!turned.has(rows)) turned.set(rows, rows[0].map((_, unit) => rows.map(row => row[unit])));
  return turned.get(rows);
}
