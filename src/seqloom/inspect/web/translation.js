// Outputs with the probability of every token, and the alternatives of a token.

import { html, nothing } from "./lit-html.js";
import { decimal, labelsOf, level, probability, readableText, shortProbability, signed, spelledOut, tokenLabel } from "./text.js";
import { tableOf } from "./parts.js";

// `act` forces tokens and is null in a saved page; `more` has the alternatives and the output without a prefix.
export function drawTranslation(doc, ui, set, act, more = {}) {
  const [best] = doc.hypotheses;
  const forced = doc.prefix_tokens.length;
  return html`
    ${forced && more.free ? change(best, more.free.hypotheses[0]) : nothing}
    <ol class="outputs" aria-label="Outputs, best first">
      ${doc.hypotheses.map((one, i) => output(doc, one, i, ui, set, act, more))}
    </ol>
    <p class="legend">Under each token: its probability.
      <span class="token p9">.95</span> certain <span class="token p4">.45</span> unsure
      <span class="token p0">.05</span> unlikely${forced ? html` · <span class="token p9 forced">.95</span> forced` : nothing}</p>
    <button class="quiet no-print" aria-expanded=${Boolean(ui.table_translation)}
      @click=${() => set({ table_translation: !ui.table_translation })}>${ui.table_translation ? "Hide table" : "Show as table"}</button>
    ${ui.table_translation ? tableOf(tokenTable(doc)) : nothing}`;
}

function change(forced, free) {
  const difference = (forced.log_prob ?? -Infinity) - (free.log_prob ?? -Infinity);
  const factor = Math.exp(-Math.abs(difference));
  const unchanged = forced.text === free.text;
  return html`<p class="change" role="status"><strong>log P ${decimal(free.log_prob)} → ${decimal(forced.log_prob)}</strong>
    (${signed(difference)}${Math.abs(difference) > 0.005 && factor > 1e-12
      ? html`: the forced output is ${factor >= 0.01 ? (1 / factor).toFixed(1) : Math.round(1 / factor).toLocaleString("en")} times ${difference < 0 ? "less" : "more"} probable` : nothing}).
    ${unchanged ? "The output is the same as without force." : html`Without force: <bdi>${readableText(free.text)}</bdi>`}</p>`;
}

function output(doc, one, i, ui, set, act, more) {
  const labels = labelsOf(one.tokens);
  const open = ui.place && ui.place[0] === i ? ui.place[1] : -1;
  return html`<li class=${i === 0 ? "output best" : "output"}>
    <div class="output-head"><span class="text" dir="auto">${readableText(one.text) || "(empty)"}</span>
      <span class="numbers">score ${decimal(one.score, 4)} · log P ${decimal(one.log_prob)}${one.finished ? "" : " · cut"}${
        one.flags.map(flag => html` · <span class="flag">${flag}</span>`)}</span></div>
    ${one.log_probs.length ? html`<div class="tokens" dir="auto">${one.tokens.map((token, t) =>
      tokenButton(doc, one, labels[t], i, t, open, set, act))}</div>` : nothing}
    ${open >= 0 && act ? panel(doc, one, open, ui, set, act, more) : nothing}
  </li>`;
}

function tokenButton(doc, one, label, i, t, open, set, act) {
  const p = probability(one.log_probs[t]);
  const forced = doc.prefix_tokens.length > t;
  const classes = `token p${level(p)}${forced ? " forced" : ""}${open === t ? " open" : ""}`;
  const described = `${label}: probability ${p.toFixed(4)}${forced ? ", forced" : ""}`;
  const content = html`<bdi>${label}</bdi><small>${shortProbability(p)}</small>`;
  if (!act) return html`<span class=${classes} title=${described}>${content}</span>`;
  return html`<button class=${classes} title=${described} aria-label=${described} aria-expanded=${open === t}
    data-place=${`${i}-${t}`} @click=${() => set({ place: open === t ? null : [i, t] })}>${content}</button>`;
}

function panel(doc, one, t, ui, set, act, more) {
  const list = more.alternatives;
  const before = spelledOut(one.tokens.slice(0, t));
  const force = token => act.force([...one.tokens.slice(0, t), token], t);
  const typed = event => {
    event.preventDefault();
    const text = new FormData(event.target).get("typed");
    if (text.trim()) act.forceText(one.tokens.slice(0, t), text);
  };
  return html`<section class="panel" aria-label="Alternatives" @keydown=${event => event.key === "Escape" && set({ place: null })}>
    <div class="panel-head"><h2>${before ? html`After “<bdi>${before}</bdi>”` : "At the beginning"}${list
      ? html` <span class="muted">entropy ${decimal(list.entropy)} nats</span>` : nothing}</h2>
      <button class="quiet" @click=${() => set({ place: null })} aria-label="Close">✕</button></div>
    ${list ? html`<div class="scroll"><table class="alternatives"><thead><tr><th scope="col">Rank</th><th scope="col">Token</th>
      <th scope="col">Probability</th><th scope="col">The model continues</th><th scope="col">log P</th></tr></thead>
      <tbody>${list.alternatives.map(row => alternative(row, row.token === one.tokens[t], force))}</tbody></table></div>` : html`<p class="muted">…</p>`}
    <form class="typed" @submit=${typed}><label>Or type the next word <input name="typed" autocomplete="off" dir="auto"></label>
      <button>Force</button></form>
  </section>`;
}

function alternative(row, chosen, force) {
  const label = tokenLabel(row.token);
  return html`<tr class=${chosen ? "chosen" : ""}><td class="number">${row.rank}</td>
    <td><button class="pick" @click=${() => force(row.token)} aria-label=${`Force ${label}`}><bdi>${label}</bdi></button>${chosen ? html` <span class="muted">chosen</span>` : nothing}</td>
    <td class="bar-cell"><svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect width=${Math.max(0.5, 100 * row.probability)} height="10"></rect></svg>
      <span class="number">${row.probability.toFixed(4)}</span></td>
    <td dir="auto">${row.continuation === undefined ? "" : readableText(row.continuation)}</td>
    <td class="number">${row.total === undefined ? "" : decimal(row.total)}</td></tr>`;
}

function tokenTable(doc) {
  const rows = doc.hypotheses.flatMap((one, i) => one.tokens.map((token, t) =>
    [`${i + 1}`, tokenLabel(token), probability(one.log_probs[t]).toFixed(6), decimal(one.log_probs[t], 6)]));
  return { caption: "Tokens of all outputs", head: ["output", "token", "probability", "log P"], rows };
}
