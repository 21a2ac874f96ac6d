// Hidden states of an HMM, and the phrases and stacks of a phrase model.

import { html, nothing, svg } from "./lit-html.js";
import { figureOf, tableOf } from "./parts.js";
import { decimal, labelsOf, readableText, shortText } from "./text.js";

const [STATE_COLUMN, STATE_ROW, STATE_LEFT] = [92, 44, 120];

export function drawHmm(doc, ui, set) {
  const onPath = new Set(doc.path);
  const states = doc.states.map((name, i) => i)
    .filter(i => onPath.has(doc.states[i]) || doc.posteriors.some(row => row[i] >= 0.02));
  const rowOf = new Map(states.map((state, row) => [doc.states[state], row]));
  const [x, y] = [t => STATE_LEFT + STATE_COLUMN * (t + 0.5), row => 46 + STATE_ROW * (row + 0.5)];
  const labels = labelsOf(doc.tokens);
  const best = doc.path.map((state, t) => `${t ? "L" : "M"}${x(t)} ${y(rowOf.get(state))}`).join("");
  const [width, height] = [STATE_LEFT + STATE_COLUMN * doc.tokens.length + 10, 54 + STATE_ROW * states.length];
  const title = `Hidden states: log P of the best path ${decimal(doc.log_prob, 4)}`;
  return html`<p class="verdict">Best path: <strong>${doc.path.map(readableText).join(" ")}</strong></p>
    ${figureOf({
      name: "hmm", title,
      description: "Tokens from left to right, states from top to bottom. The area of a circle is the probability of the state given the whole text; the line is the best path.",
      picture: html`<div class="scroll" tabindex="0" role="region" aria-label="Trellis"><svg class="trellis" viewBox="0 0 ${width} ${height}" width=${width} height=${height} role="img" aria-label=${title}>
        ${labels.map((label, t) => svg`<text x=${x(t)} y="24" text-anchor="middle">${shortText(label, 11)}</text>`)}
        ${states.map((state, row) => svg`<text x=${STATE_LEFT - 8} y=${y(row) + 4} text-anchor="end">${shortText(readableText(doc.states[state]), 14)}</text>`)}
        <path class="best-path" d=${best}></path>
        ${doc.posteriors.map((probabilities, t) => states.map((state, row) => {
          const p = probabilities[state];
          return svg`<circle class=${doc.path[t] === doc.states[state] ? "state on" : "state"} cx=${x(t)} cy=${y(row)} r=${Math.max(2, 18 * Math.sqrt(p))}></circle>${p >= 0.1 ? svg`<text class="small inside" x=${x(t)} y=${y(row) + 4} text-anchor="middle">${p.toFixed(2)}</text>` : nothing}`;
        }))}
      </svg></div>`,
      table: () => ({
        caption: "P(state | text)", head: ["token", "best path", ...states.map(state => doc.states[state])],
        rows: doc.posteriors.map((row, t) => [labels[t], doc.path[t], ...states.map(state => Number(row[state].toFixed(4)))]),
      }),
    }, ui, set)}`;
}

export function drawStacks(doc, ui, set) {
  const steps = doc.steps;
  const [width, height] = [Math.max(320, doc.source.length * 96 + 20), 210];
  const x = i => 10 + 96 * i;
  const share = width / Math.max(1, steps.length);
  const title = `Phrases: score ${decimal(doc.score, 4)}`;
  return html`<p class="verdict"><strong dir="auto">${readableText(doc.answer)}</strong></p>
    ${figureOf({
      name: "phrases", title,
      description: "Source words on top, phrases of the output below in their order; the links show which source words each covers.",
      picture: html`<div class="scroll" tabindex="0" role="region" aria-label="Phrases"><svg class="phrases" viewBox="0 0 ${width} ${height}" width=${width} height=${height} role="img" aria-label=${title}>
        ${doc.source.map((word, i) => svg`<text x=${x(i) + 44} y="26" text-anchor="middle">${shortText(readableText(word), 11)}</text>`)}
        ${steps.map((step, n) => {
          const [from, to, left] = [x(step.start), x(step.stop) - 8, n * share + 4];
          const right = left + share - 8;
          return svg`<g class=${`phrase ph${n % 4}`}><rect x=${from} y="38" width=${to - from} height="8"></rect>
            <path d=${`M${from} 48L${to} 48L${right} 140L${left} 140Z`}></path><rect x=${left} y="142" width=${right - left} height="8"></rect>
            <text x=${(left + right) / 2} y="172" text-anchor="middle">${shortText(readableText(step.target.join(" ")), Math.max(4, Math.floor(share / 8)))}</text>
            <text class="small" x=${(left + right) / 2} y="192" text-anchor="middle">rank ${step.rank} · ${decimal(step.score)}</text></g>`;
        })}
      </svg></div>`,
      table: () => ({
        caption: "Phrases of the output", head: ["source", "target", "score", "future", "rank"],
        rows: steps.map(step => [doc.source.slice(step.start, step.stop).join(" "), step.target.join(" "), decimal(step.score, 4), decimal(step.future, 4), step.rank]),
      }),
    }, ui, set)}
    <h2>Stacks</h2>${tableOf({
      caption: "Hypotheses by number of covered words", head: ["words", "offered", "made", "recombined", "pruned", "kept", "coverages"],
      rows: doc.stacks.map(one => [String(one.words), one.offered, one.made, one.recombined, one.pruned, one.kept, one.coverages]),
    })}
    <h2>Future cost</h2>${tableOf({
      caption: "Estimated score of every span: its first word, and its length", head: ["from", ...doc.source.map((_, i) => String(i + 1))],
      rows: doc.future.map((row, i) => [doc.source[i], ...doc.source.map((_, n) => (row[n] === undefined ? "" : decimal(row[n])))]),
    })}`;
}
