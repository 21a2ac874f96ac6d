// A saved page: documents, drawn without a server, one at a time.

import { html, nothing, render } from "./lit-html.js";
import { drawAttention } from "./attention.js";
import { drawComparison } from "./compare.js";
import { drawCurves } from "./curves.js";
import { drawEmbeddings, drawPositions } from "./embeddings.js";
import { drawGates } from "./gates.js";
import { drawSearch } from "./search.js";
import { drawHmm, drawStacks } from "./statistical.js";
import { drawInfluence } from "./influence.js";
import { drawIntervention } from "./intervention.js";
import { drawLayers } from "./layers.js";
import { readableText } from "./text.js";
import { drawTranslation } from "./translation.js";
import { drawVerdict } from "./verdict.js";

export const DRAWINGS = {
  translation: drawTranslation, attention: drawAttention, search: drawSearch,
  hmm: drawHmm, stacks: drawStacks, gates: drawGates, curves: drawCurves,
  verdict: drawVerdict, influence: drawInfluence, layers: drawLayers, intervention: drawIntervention,
  embeddings: drawEmbeddings, positions: drawPositions, compare: drawComparison,
};

export function showSaved(place, saved) {
  const states = saved.pages.map(one => ({ ...one.state }));
  let number = 0;
  const go = to => {
    if (!saved.pages[to]) return;
    number = to;
    draw();
    scrollTo(0, 0);
  };
  const set = patch => {
    Object.assign(states[number], patch);
    draw();
  };
  const draw = () => {
    const page = saved.pages[number];
    render(html`<main class="saved"><h1 dir="auto">${readableText(saved.title)}</h1>
      ${saved.pages.length > 1 ? html`<nav class="controls" aria-label="Pages"><button ?disabled=${!number} @click=${() => go(number - 1)}>← Back</button>
        <select aria-label="Page" @change=${event => go(Number(event.target.value))}>${saved.pages.map((one, i) => html`<option value=${i} ?selected=${i === number}>${i + 1}. ${readableText(one.heading)}</option>`)}</select>
        <button ?disabled=${number === saved.pages.length - 1} @click=${() => go(number + 1)}>Next →</button></nav>
        <h2 class="saved-heading" dir="auto">${readableText(page.heading)}</h2>` : nothing}
      ${page.paragraph ? page.paragraph.split("\n").map(text => html`<p class="saved-text" dir="auto">${readableText(text)}</p>`) : nothing}
      ${page.source ? html`<p class="saved-text" dir="auto"><span class="muted">Source:</span> ${readableText(page.source)}</p>` : nothing}
      ${DRAWINGS[page.document.view](page.document, states[number], set, null, page.more)}</main>`, place);
  };
  addEventListener("keydown", event => {
    if (event.target.closest?.("input, select, textarea, [tabindex]")) return;
    const step = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[event.key];
    if (step && saved.pages.length > 1) go(number + step);
  });
  draw();
}
