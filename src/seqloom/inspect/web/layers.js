// Layer by layer: rank and probability of the final tokens if decoding stopped after each layer.

import { html } from "./lit-html.js";
import { figureOf, tableOf } from "./parts.js";
import { labelsOf, level, probability, shortProbability, tokenLabel } from "./text.js";

export function drawLayers(doc, ui, set) {
  const labels = labelsOf(doc.target);
  const layerName = number => (number === 0 ? "input" : `layer ${number}`);
  const decided = doc.target.map((_, t) => doc.layers.findIndex((one, n) => doc.layers.slice(n).every(later => later.ranks[t] === 1)));
  const title = "Each output token, if decoding stopped after this layer";
  return html`${figureOf({
    name: "layers", title,
    description: "The state after each layer of the decoder goes through the final norm and the output matrix. A cell has the rank and the probability of the token that the model chose in the end; below it, the token that this layer would choose instead.",
    picture: html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table class="lens"><thead><tr><th scope="col">after</th>${labels.map(label => html`<th scope="col"><bdi>${label}</bdi></th>`)}</tr></thead>
      <tbody>${[...doc.layers].reverse().map(one => html`<tr><th scope="row">${layerName(one.layer)}</th>${labels.map((label, t) => {
        const p = probability(one.log_probs[t]);
        return html`<td class=${`w${level(p)}`}><strong>#${one.ranks[t]}</strong> <small>${shortProbability(p)}</small>${one.ranks[t] === 1 ? html`<br><small>= <bdi>${label}</bdi></small>` : html`<br><small>would say <bdi>${tokenLabel(one.best[t])}</bdi></small>`}</td>`;
      })}</tr>`)}</tbody></table></div>`,
    table: null,
  }, ui, set)}
  ${tableOf({
    caption: "The first layer from which on a token stays first",
    head: ["token", "decided after"], rows: labels.map((label, t) => [label, decided[t] < 0 ? "never first" : layerName(doc.layers[decided[t]].layer)]),
  })}
  <p class="note">The final norm and the output matrix are trained for the last layer. An early layer may know a token in a form that they cannot read, so
    a low rank does not prove that the layer lacks it.</p>`;
}
