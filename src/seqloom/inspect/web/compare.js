// Two models side by side: first difference, and the probability of each output under the other.

import { html, nothing } from "./lit-html.js";
import { decimal, labelsOf, level, probability, readableText, shortProbability, signed } from "./text.js";

// The same from one document, for a saved page.
export function drawComparison(doc) {
  return drawCompare(doc.names, doc.documents, doc.continued);
}

export function drawCompare(names, docs, continued) {
  if (!docs[0] || !docs[1]) return nothing;
  const outputs = docs.slice(0, 2).map(doc => doc.hypotheses[0]);
  const words = outputs.map(one => one.text.split(" "));
  const first = words[0].findIndex((word, i) => word !== words[1][i]);
  const same = outputs[0].text === outputs[1].text;
  return html`<p class="verdict">${same ? "Both models give the same output."
    : html`The outputs differ from word ${(first < 0 ? words[0].length : first) + 1} on: “<bdi>${readableText(words[0][first] ?? "(end)")}</bdi>” or “<bdi>${readableText(words[1][first < 0 ? words[0].length : first] ?? "(end)")}</bdi>”.`}</p>
    <div class="pair">${outputs.map((one, i) => comparedSide(names, i, one, docs[2 + i], continued[i]))}</div>`;
}

// `score` is the output of this model under the other one.
function comparedSide(names, i, one, score, continued) {
  const labels = labelsOf(one.tokens);
  const difference = score ? score.log_prob - one.log_prob : 0;
  return html`<section class="output best" aria-label=${names[i]}><h2><bdi>${readableText(names[i])}</bdi></h2>
    <p class="text" dir="auto">${readableText(one.text) || "(empty)"}</p>
    <div class="tokens" dir="auto">${one.tokens.map((token, t) => {
      const p = probability(one.log_probs[t] ?? null);
      return html`<span class=${`token p${level(p)}`}><bdi>${labels[t]}</bdi><small>${shortProbability(p)}</small></span>`;
    })}</div>
    <p class="numbers">log P ${decimal(one.log_prob)} under ${readableText(names[i])}${score ? html`, ${decimal(score.log_prob)} under ${readableText(names[1 - i])} (${signed(difference)})` : nothing}</p>
    ${score ? html`<h3>Under ${readableText(names[1 - i])}</h3><div class="tokens" dir="auto">${score.tokens.map((token, t) => {
      const p = probability(score.log_probs[t]);
      return html`<span class=${`token p${level(p)}`}><bdi>${labelsOf(score.tokens)[t]}</bdi><small>${shortProbability(p)}</small></span>`;
    })}</div>` : nothing}
    ${continued ? html`<h3>Where the outputs part, ${readableText(names[1 - i])} continues this output</h3><p dir="auto">${readableText(continued.hypotheses[0].text)}</p>` : nothing}
  </section>`;
}
