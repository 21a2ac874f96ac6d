// Embeddings in a plane with the neighbours of a token, and position encodings.

import { html, nothing, svg } from "./lit-html.js";
import { choice, figureOf, tableOf } from "./parts.js";
import { heatmap, largest } from "./heatmap.js";
import { decimal, shortText, tokenLabel } from "./text.js";

const [PLANE_WIDE, PLANE_HIGH, LABELLED] = [900, 560, 70];

export function drawEmbeddings(doc, ui, set, act) {
  const find = event => {
    event.preventDefault();
    set({ token: new FormData(event.target).get("token").trim() || null });
  };
  const near = new Set(doc.neighbours.map(one => one.token));
  const title = `Embeddings of ${doc.tokens.length.toLocaleString("en")} of ${doc.vocabulary.toLocaleString("en")} ${doc.side} tokens`;
  return html`${act ? html`<div class="controls">${choice("Vocabulary", [["source", "Source"], ["target", "Target"]], doc.side, side => set({ side, token: null }))}
      <form class="typed" @submit=${find}><label>Neighbours of <input type="text" name="token" autocomplete="off" dir="auto" .value=${ui.token ?? ""} placeholder=${doc.tokens[0] ?? ""}></label><button>Find</button></form></div>` : nothing}
    <div class=${doc.neighbours.length ? "attention" : ""}><div>
    ${figureOf({
      name: "embeddings", title,
      description: `The first two principal components: ${doc.explained.map(value => `${Math.round(100 * value)} %`).join(" and ")} of the variance. Tokens that are near each other here can be far apart in the other dimensions; the cosine of the neighbours uses all of them.`,
      picture: plane(doc, near, title),
      table: () => ({ caption: title, head: ["token", "x", "y"], rows: doc.tokens.map((token, i) => [tokenLabel(token), ...doc.points[i].map(value => Number(value.toFixed(4)))]) }),
    }, ui, set)}</div><div>
    ${doc.neighbours.length ? tableOf({
      caption: `Nearest neighbours of ${tokenLabel(doc.token)}`, head: ["token", "cosine"],
      rows: doc.neighbours.map(one => [tokenLabel(one.token), Number(one.cosine.toFixed(4))]),
    }) : nothing}</div></div>`;
}

function plane(doc, near, title) {
  const far = doc.neighbours.filter(one => !doc.tokens.includes(one.token));
  const all = [...doc.tokens.map((token, i) => ({ token, point: doc.points[i], named: i < LABELLED && !near.size })), ...far.map(one => ({ token: one.token, point: one.point }))];
  const [xs, ys] = [all.map(one => one.point[0]), all.map(one => one.point[1])];
  const scale = (value, values, size) => 40 + ((value - Math.min(...values)) / (Math.max(...values) - Math.min(...values) || 1)) * (size - 80);
  const shown = [...all].sort((a, b) => near.has(a.token) - near.has(b.token));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Plane"><svg class="plane" viewBox="0 0 ${PLANE_WIDE} ${PLANE_HIGH}" width=${PLANE_WIDE} height=${PLANE_HIGH} role="img" aria-label=${title}>
    ${shown.map(({ token, point, named }) => {
      const [x, y] = [scale(point[0], xs, PLANE_WIDE), PLANE_HIGH - scale(point[1], ys, PLANE_HIGH)];
      const on = near.has(token);
      return svg`<circle class=${on ? "point on" : "point"} cx=${x} cy=${y} r=${on ? 6 : 2.5}></circle>${on || named ? svg`<text class=${token === doc.token ? "on" : on ? "" : "small"} x=${x + 8} y=${y + 4}>${shortText(tokenLabel(token), 16)}</text>` : nothing}`;
    })}
  </svg></div>`;
}

export function drawPositions(doc, ui, set) {
  const map = (name, rows, title, description) => {
    const top = largest(rows, 1e-6);
    return figureOf({
      name, title, description: `${description} From ${decimal(-top)} to ${decimal(top)}; negative values in orange.`,
      picture: heatmap({ rows, top, columnLabels: rows[0].map(() => ""), rowLabels: rows.map((_, i) => (i % 4 ? "" : String(i))), title, cell: Math.max(9, Math.floor(400 / Math.max(rows.length, rows[0].length))) }),
      table: () => ({ caption: title, head: ["", ...rows[0].map((_, i) => String(i))], rows: rows.map((row, i) => [String(i), ...row.map(value => Number(value.toFixed(3)))]) }),
    }, ui, set);
  };
  return html`<div class="charts">
    ${Object.entries(doc.vectors).map(([place, rows]) => map(`vectors-${place}`, rows, `${place}: vectors`, "A row per position, a column per component."))}
    ${Object.entries(doc.products).map(([place, rows]) => map(`products-${place}`, rows, `${place}: products`, "The product of the vectors of two positions."))}
    ${Object.entries(doc.biases).map(([place, heads]) => map(`bias-${place}`, heads[0], `${place}: bias of head 1`, "What is added to the score of a query (row) and a key (column)."))}
  </div>`;
}
