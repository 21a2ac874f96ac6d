// A saved page: one document, drawn without a server.

import { html, render } from "./lit-html.js";
import { drawAttention } from "./attention.js";
import { drawCurves } from "./curves.js";
import { drawGates } from "./gates.js";
import { drawSearch } from "./search.js";
import { drawHmm, drawStacks } from "./statistical.js";
import { readableText } from "./text.js";
import { drawTranslation } from "./translation.js";
import { drawVerdict } from "./verdict.js";

export const DRAWINGS = {
  translation: drawTranslation, attention: drawAttention, search: drawSearch,
  hmm: drawHmm, stacks: drawStacks, gates: drawGates, curves: drawCurves,
  verdict: drawVerdict,
};

export function showSaved(place, saved) {
  const ui = { ...saved.state };
  const draw = () => render(html`<main class="saved"><h1 dir="auto">${readableText(saved.title)}</h1>${DRAWINGS[saved.document.view](saved.document, ui, set, null)}</main>`, place);
  const set = patch => {
    Object.assign(ui, patch);
    draw();
  };
  draw();
}
