// Line charts of numbers by step.

import { html, nothing, svg } from "./lit-html.js";
import { figureOf } from "./parts.js";
import { readableText } from "./text.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [460, 240, 52, 30];

// `series` is a list of { name, points: [[x, y], ...] }; the dashes tell them apart without colour.
export function lineChart({ name, title, description, series }, ui, set) {
  const points = series.flatMap(one => one.points);
  if (!points.length) return nothing;
  const [xs, ys] = [points.map(point => point[0]), points.map(point => point[1])];
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(0, ...ys), Math.max(...ys)];
  const x = value => LEFT + ((value - x0) / (x1 - x0 || 1)) * (WIDTH - LEFT - 16);
  const y = value => HEIGHT - BOTTOM - ((value - y0) / (y1 - y0 || 1)) * (HEIGHT - BOTTOM - 16);
  const path = one => one.points.map((point, i) => `${i ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join("");
  const picture = html`<svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" width=${WIDTH} height=${HEIGHT} role="img" aria-label=${title}>
    ${ticks(y0, y1).map(value => svg`<line class="grid" x1=${LEFT} x2=${WIDTH - 10} y1=${y(value)} y2=${y(value)}></line><text x=${LEFT - 6} y=${y(value) + 4} text-anchor="end">${compact(value)}</text>`)}
    ${ticks(x0, x1).map(value => svg`<text x=${x(value)} y=${HEIGHT - 10} text-anchor="middle">${compact(value)}</text>`)}
    ${series.map((one, i) => svg`<path class=${`line l${i % 6}`} d=${path(one)}></path>${one.points.length < 30 ? one.points.map(point => svg`<circle class=${`dot l${i % 6}`} cx=${x(point[0])} cy=${y(point[1])} r="2.5"></circle>`) : nothing}`)}
  </svg>
  ${series.length > 1 ? html`<ul class="chart-legend">${series.map((one, i) => html`<li><svg viewBox="0 0 28 8" width="28" height="8" aria-hidden="true">${svg`<path class=${`line l${i % 6}`} d="M0 4L28 4"></path>`}</svg> ${readableText(one.name)}</li>`)}</ul>` : nothing}`;
  const table = () => ({
    caption: title, head: ["step", "series", "value"],
    rows: series.flatMap(one => one.points.map(point => [String(point[0]), one.name, Number(point[1].toPrecision(6))])),
  });
  return figureOf({ name, title, description, picture, table }, ui, set);
}

function ticks(low, high) {
  const raw = (high - low || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(one => one * power).find(one => one >= raw);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) found.push(value);
  return found;
}

function compact(value) {
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(0);
  return Math.abs(value) >= 10000 ? `${Math.round(value / 1000)}k` : String(Number(value.toPrecision(3)));
}
