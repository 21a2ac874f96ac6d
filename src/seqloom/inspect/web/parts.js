// Parts that several views share.

import { html, nothing } from "./lit-html.js";

// A picture with a title, a description, and its numbers as a table.
export function figureOf({ title, description, picture, table, name }, ui, set) {
  const key = `table_${name}`;
  const id = `figure-${name}`;
  return html`<figure class="figure" aria-labelledby=${id}>
    <figcaption>
      <h2 id=${id}>${title}</h2>
      <p>${description}</p>
    </figcaption>
    <div class="picture" data-picture=${name}>${picture}</div>
    ${table ? html`<button class="quiet no-print" aria-expanded=${Boolean(ui[key])}
      @click=${() => set({ [key]: !ui[key] })}>${ui[key] ? "Hide table" : "Show as table"}</button>` : nothing}
    ${table && ui[key] ? tableOf(table()) : nothing}
  </figure>`;
}

export function tableOf({ caption, head, rows }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table>
    <caption>${caption}</caption>
    <thead><tr>${head.map(cell => html`<th scope="col">${cell}</th>`)}</tr></thead>
    <tbody>${rows.map(row => html`<tr>${row.map((cell, i) => i === 0
      ? html`<th scope="row" dir="auto">${cell}</th>`
      : html`<td dir="auto" class=${typeof cell === "number" ? "number" : ""}>${cell}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

// A group of buttons of which one is pressed.
export function choice(label, options, chosen, choose) {
  return html`<div class="choice" role="group" aria-label=${label}>${options.map(([value, text]) => html`<button
    aria-pressed=${value === chosen} @click=${() => choose(value)}>${text}</button>`)}</div>`;
}

export function slider(label, value, least, most, change, shown = value) {
  return html`<label class="slider"><span>${label} <output>${shown}</output></span>
    <input type="range" min=${least} max=${most} .value=${String(value)}
      @input=${event => change(Number(event.target.value))}></label>`;
}

export function note(text) {
  return html`<p class="note">${text}</p>`;
}
