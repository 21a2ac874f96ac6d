// Heat maps: an SVG with labels around one image, so that 512 x 512 cells cost as much as 5 x 5.

import { html, nothing, svg } from "./lit-html.js";
import { shortText } from "./text.js";

const images = new WeakMap();
const tops = new WeakMap();
const BLUE = [37, 122, 219];
const ORANGE = [208, 92, 16];

// A PNG with a pixel per cell: the share of `top` is the opacity; negative values are orange.
export function heatImage(rows, top) {
  const found = images.get(rows);
  if (found?.top === top) return found.url;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [rows[0].length, rows.length];
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(canvas.width, canvas.height);
  let place = 0;
  for (const row of rows) {
    for (const value of row) {
      const [red, green, blue] = value < 0 ? ORANGE : BLUE;
      pixels.data[place++] = red;
      pixels.data[place++] = green;
      pixels.data[place++] = blue;
      pixels.data[place++] = Math.round(255 * Math.min(1, Math.abs(value) / top));
    }
  }
  context.putImageData(pixels, 0, 0);
  const url = canvas.toDataURL();
  images.set(rows, { top, url });
  return url;
}

export function largest(rows, least = 0.05) {
  if (tops.get(rows)?.least === least) return tops.get(rows).top;
  let top = least;
  for (const row of rows) for (const value of row) if (Math.abs(value) > top) top = Math.abs(value);
  tops.set(rows, { least, top });
  return top;
}

// A map with labels; `at` is the cell under the pointer, and `point` is called with a cell.
export function heatmap({ rows, top, columnLabels, rowLabels, title, at, point, cell = 0, signs = false }) {
  const [width, height] = [rows[0].length, rows.length];
  const size = cell || Math.max(2, Math.min(30, Math.floor(620 / Math.max(width, height))));
  const labelled = size >= 9;
  const [left, head] = labelled ? [margin(rowLabels), margin(columnLabels)] : [8, 8];
  const [across, down] = [left + width * size, head + height * size];
  const cellOf = event => {
    const box = event.currentTarget.getBoundingClientRect();
    const scale = (across + 6) / box.width;
    const column = Math.floor(((event.clientX - box.left) * scale - left) / size);
    const row = Math.floor(((event.clientY - box.top) * scale - head) / size);
    return { row: row >= 0 && row < height ? row : null, column: column >= 0 && column < width ? column : null };
  };
  const move = event => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const clamp = (value, most) => Math.max(0, Math.min(most - 1, value));
    point({ row: clamp((at?.row ?? 0) + step[0], height), column: clamp((at?.column ?? 0) + step[1], width) });
  };
  return html`<svg class="heatmap" viewBox="0 0 ${across + 6} ${down + 6}" width=${across + 6} height=${down + 6} role="img" tabindex=${point ? 0 : nothing}
    aria-label=${title} @pointermove=${point ? event => point(cellOf(event)) : nothing}
    @pointerleave=${point ? () => point(null) : nothing} @keydown=${point ? move : nothing}>
    <rect class="frame" x=${left - 0.5} y=${head - 0.5} width=${width * size + 1} height=${height * size + 1}></rect>
    <image href=${heatImage(rows, top)} x=${left} y=${head} width=${width * size} height=${height * size} preserveAspectRatio="none"></image>
    ${signs && size >= 14 ? rows.map((row, t) => row.map((value, s) => (value < -0.1 * top
      ? svg`<path class="minus" d=${`M${left + (s + 0.3) * size} ${head + (t + 0.5) * size}h${0.4 * size}`}></path>` : nothing))) : nothing}
    ${at?.row != null ? svg`<rect class="mark" x=${left} y=${head + at.row * size} width=${width * size} height=${size}></rect>` : nothing}
    ${at?.column != null ? svg`<rect class="mark" x=${left + at.column * size} y=${head} width=${size} height=${height * size}></rect>` : nothing}
    ${labelled ? rowLabels.map((label, i) => svg`<text class=${at?.row === i ? "on" : ""} x=${left - 6} y=${head + (i + 0.5) * size + 4.5} text-anchor="end">${shortText(label, 16)}</text>`) : nothing}
    ${labelled ? columnLabels.map((label, i) => svg`<text class=${at?.column === i ? "on" : ""} transform="translate(${left + (i + 0.5) * size + 4.5} ${head - 6}) rotate(-90)">${shortText(label, 16)}</text>`) : nothing}
  </svg>`;
}

function margin(labels) {
  return 14 + 7.6 * Math.min(16, Math.max(...labels.map(label => [...label].length)));
}
