// A translation of the user's own: its score, where the search drops it, and whether model or search prefers another.

import { html, nothing, svg } from "./lit-html.js";
import { figureOf } from "./parts.js";
import { decimal, labelsOf, level, probability, readableText, shortText } from "./text.js";

const [STEP_WIDE, CHART_HIGH, CHART_LEFT] = [86, 170, 64];
const BLAME = {
  same: ["This is the output", "The search returns this translation."],
  model: ["The model prefers its output", "It gives your translation a lower score, so no beam can make it the output."],
  search: ["The search missed it", "The model gives your translation a higher score than the output, but the search dropped it."],
  equal: ["Both score the same", "The model gives your translation the score of the output."],
  rules: ["The search options exclude it", "A rule, such as a forbidden word or the maximum length, excludes this translation."],
};

export function drawVerdict(doc, ui, set) {
  const [head, reason] = BLAME[doc.verdict];
  const labels = labelsOf(doc.steps.map(one => one.token));
  return html`<section class="output best" aria-label="Verdict">
    <h2>${head}</h2>
    <p class="verdict">${reason} Score ${decimal(doc.score, 4)} (log P ${decimal(doc.log_prob)}) for “<bdi>${readableText(doc.target)}</bdi>”${
      doc.verdict === "same" ? "" : html`, ${decimal(doc.output.score, 4)} (log P ${decimal(doc.output.log_prob)}) for the output “<bdi>${readableText(doc.output.text)}</bdi>”`}.
      ${doc.unknown ? html` <span class="flag">${doc.unknown} of its tokens are not in the vocabulary.</span>` : nothing}</p>
    <p class="verdict">${lostText(doc, labels)}</p>
    <div class="tokens" dir="auto">${doc.steps.map((one, i) => {
      const p = probability(one.log_prob);
      const lost = doc.lost_at === i + 1;
      return html`<span class=${`token p${level(p)}${lost ? " lost" : ""}`} title=${`rank ${one.rank}`}><bdi>${labels[i]}</bdi><small>P ${p < 0.01 ? p.toExponential(0) : p.toFixed(2)} · #${one.rank}</small>${lost ? html`<strong>✂ ${doc.reason}</strong>` : nothing}</span>`;
    })}</div>
    <p class="muted small">Under each token: its probability, and its rank among all tokens at this place.</p>
    ${figureOf({
      name: "verdict", title: "Log P so far, and what it takes to stay in the beam",
      description: `The line with circles is your translation, the dashed line the last hypothesis that beam ${doc.beam} keeps. Below the dashed line, a hypothesis is dropped.`,
      picture: html`<div class="scroll" tabindex="0" role="region" aria-label="Log P by token">${race(doc, labels)}</div>`,
      table: () => ({
        caption: "Your translation, token by token", head: ["token", "log P", "rank", "log P so far", "last kept", "rank in the beam", "fate"],
        rows: doc.steps.map((one, i) => [labels[i], decimal(one.log_prob, 4), one.rank, decimal(one.total, 4), one.last_kept === null ? "" : decimal(one.last_kept, 4), one.rank_in_beam ?? "", one.fate]),
      }),
    }, ui, set)}
  </section>`;
}

function lostText(doc, labels) {
  const keeps = doc.smallest_beam === null ? `No beam up to ${doc.largest_tried} keeps it.` : `The smallest beam that keeps it to its end: ${doc.smallest_beam}.`;
  if (doc.verdict === "rules") return "";
  if (doc.lost_at === null) return `Beam ${doc.beam} keeps it to its end. ${keeps}`;
  const label = html`token ${doc.lost_at}, “<bdi>${labels[doc.lost_at - 1]}</bdi>”`;
  const step = doc.steps[doc.lost_at - 1];
  if (doc.reason === "stopped") return html`With beam ${doc.beam} the search stops before ${label}. ${keeps}`;
  return html`With beam ${doc.beam} it falls out of the beam at ${label}${step.last_kept === null ? nothing
    : html`: log P ${decimal(step.total)}, and the last hypothesis kept has ${decimal(step.last_kept)}`}. ${keeps}`;
}

function race(doc, labels) {
  const values = doc.steps.flatMap(one => [one.total, one.last_kept]).filter(value => value !== null);
  const [low, high] = [Math.min(...values), Math.max(0, ...values)];
  const x = i => CHART_LEFT + STEP_WIDE * (i + 0.5);
  const y = value => 14 + ((high - value) / (high - low || 1)) * (CHART_HIGH - 28);
  const line = key => {
    const points = doc.steps.map((one, i) => [i, one[key]]).filter(([, value]) => value !== null);
    return points.map(([i, value], n) => `${n ? "L" : "M"}${x(i)} ${y(value).toFixed(1)}`).join("");
  };
  const [width, height] = [CHART_LEFT + STEP_WIDE * doc.steps.length + 10, CHART_HIGH + 46];
  return html`<svg class="race" viewBox="0 0 ${width} ${height}" width=${width} height=${height} role="img" aria-label="Log P of your translation and of the last hypothesis kept, by token">
    ${[high, (low + high) / 2, low].map(value => svg`<line class="grid" x1=${CHART_LEFT} x2=${width - 6} y1=${y(value)} y2=${y(value)}></line><text class="small" x=${CHART_LEFT - 6} y=${y(value) + 4} text-anchor="end">${decimal(value, 1)}</text>`)}
    <path class="line l1" d=${line("last_kept")}></path><path class="line l0" d=${line("total")}></path>
    ${doc.steps.map((one, i) => svg`${one.total === null ? nothing : svg`<circle class="dot l0" cx=${x(i)} cy=${y(one.total)} r="4.5"></circle>`}
      <text x=${x(i)} y=${CHART_HIGH + 12} text-anchor="middle">${shortText(labels[i], 11)}</text>
      ${doc.lost_at === i + 1 ? svg`<rect class="mark" x=${x(i) - STEP_WIDE / 2 + 3} y="4" width=${STEP_WIDE - 6} height=${CHART_HIGH + 36}></rect><text class="on" x=${x(i)} y=${CHART_HIGH + 32} text-anchor="middle">${doc.reason}</text>` : nothing}`)}
  </svg>`;
}
