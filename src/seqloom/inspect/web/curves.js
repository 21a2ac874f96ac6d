// A run: losses, metrics, gradient norms and speed by step; several runs in one picture.

import { html } from "./lit-html.js";
import { lineChart } from "./charts.js";

const NOT_METRICS = new Set(["kind", "step", "best", "seconds", "loss"]);

export function drawCurves(doc, ui, set, act, more = {}) {
  const docs = [doc, ...(more.others ?? [])];
  const named = docs.length > 1;
  const label = (one, text) => (named ? `${one.name} ${text}` : text);
  const of = (lines, key) => lines.filter(line => typeof line[key] === "number").map(line => [line.step, line[key]]);
  const losses = docs.flatMap(one => [
    { name: label(one, "training"), points: of(one.train, "loss") },
    { name: label(one, "validation"), points: of(one.valid, "loss") },
  ]).filter(one => one.points.length);
  const metrics = [...new Set(docs.flatMap(one => one.valid.flatMap(line => Object.keys(line))))]
    .filter(key => !NOT_METRICS.has(key) && docs.some(one => of(one.valid, key).length)).sort();
  const last = doc.train.at(-1) ?? doc.valid.at(-1);
  return html`
    <p class="verdict">${doc.name}: step ${last.step.toLocaleString("en")}${typeof last.loss === "number" ? `, loss ${last.loss.toFixed(3)}` : ""}${last.seconds ? `, ${(last.seconds / 60).toFixed(1)} minutes` : ""}. ${act ? "The curves follow the run while it trains." : ""}</p>
    <div class="charts">
      ${lineChart({ name: "loss", title: "Loss", description: "Cross-entropy per token by step.", series: losses }, ui, set)}
      ${metrics.map(key => lineChart({
        name: `metric-${key}`, title: key, description: "On the validation data, by step.",
        series: docs.map(one => ({ name: one.name, points: of(one.valid, key) })).filter(one => one.points.length),
      }, ui, set))}
      ${gradients(doc, ui, set)}
      ${lineChart({
        name: "speed", title: "Speed", description: "Target tokens per second by step.",
        series: docs.map(one => ({ name: one.name, points: of(one.train, "tokens_per_second") })).filter(one => one.points.length),
      }, ui, set)}
    </div>`;
}

function gradients(doc, ui, set) {
  const lines = doc.train.filter(line => line.gradient_norms);
  const layers = lines.length ? Object.keys(lines.at(-1).gradient_norms) : [];
  const series = layers.map(layer => ({
    name: layer, points: lines.filter(line => typeof line.gradient_norms[layer] === "number").map(line => [line.step, line.gradient_norms[layer]]),
  }));
  return lineChart({ name: "gradients", title: "Gradient norm", description: "By layer and step.", series }, ui, set);
}
