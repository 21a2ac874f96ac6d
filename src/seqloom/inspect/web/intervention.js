// Changes in the attention of a Transformer, and the output that is decoded with them.

import { html, nothing } from "./lit-html.js";
import { decimal, labelsOf, level, probability, readableText, shortProbability, signed } from "./text.js";

// Controls of the attention view; `doc` is the attention, `changed` the output with the changes.
export function changeControls(doc, ui, set, changed) {
  const [source, target] = [labelsOf(doc.source), labelsOf(doc.target)];
  const [off, pins] = [ui.off ?? [], ui.pins ?? []];
  const chosen = ui.head ?? null;
  const isOff = chosen && off.some(one => one.join() === chosen.join());
  const pin = event => {
    event.preventDefault();
    const form = new FormData(event.target);
    const [place, to] = [Number(form.get("place")), Number(form.get("to"))];
    set({ pins: [...pins.filter(one => one[0] !== place), [place, to]] });
  };
  return html`<section class="panel no-print" aria-label="Change the attention"><h2>Change the attention, and decode again</h2>
    <div class="controls">
      <button ?disabled=${!chosen} @click=${() => set({ off: isOff ? off.filter(one => one.join() !== chosen.join()) : [...off, chosen] })}>${chosen
        ? `Switch head ${chosen[0] + 1}.${chosen[1] + 1} ${isOff ? "on" : "off"}` : "Choose a head to switch it off"}</button>
      <form class="typed" @submit=${pin}><label>Pin <select name="place">${target.map((label, t) => html`<option value=${t}>${t + 1}. ${label}</option>`)}</select></label>
        <label>to <select name="to">${source.map((label, s) => html`<option value=${s}>${s + 1}. ${label}</option>`)}</select></label><button>Pin</button></form>
      ${off.length || pins.length ? html`<button @click=${() => set({ off: [], pins: [] })}>Undo all</button>` : nothing}
    </div>
    ${changed ? drawIntervention(changed) : nothing}</section>`;
}

export function drawIntervention(doc) {
  const difference = doc.changed.log_prob - doc.free.log_prob;
  const changes = [...doc.off.map(([layer, head]) => `head ${layer + 1}.${head + 1} off`), ...doc.pins.map(([place, to]) => `place ${place + 1} attends to “${labelsOf(doc.source_tokens)[to]}” only`)];
  return html`<div role="status"><p class="change">${doc.changed.text === doc.free.text ? "The output stays the same" : "The output changes"}: ${changes.join(", ")}. log P ${decimal(doc.free.log_prob)} → ${decimal(doc.changed.log_prob)} (${signed(difference)}).</p>
    <div class="pair">${[["Unchanged", doc.free], ["Changed", doc.changed]].map(([name, one]) => html`<section class="output" aria-label=${name}><h3>${name}</h3><p class="text" dir="auto">${readableText(one.text) || "(empty)"}</p>
      <div class="tokens" dir="auto">${one.tokens.map((token, t) => {
        const p = probability(one.log_probs[t] ?? null);
        return html`<span class=${`token p${level(p)}`}><bdi>${labelsOf(one.tokens)[t]}</bdi><small>${shortProbability(p)}</small></span>`;
      })}</div></section>`)}</div></div>`;
}
