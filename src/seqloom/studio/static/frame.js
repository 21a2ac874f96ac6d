// Header, source text and options.

import { html, nothing } from "./lit-html.js";
import { choice } from "./parts.js";
import { readableText, tokenLabel } from "./text.js";
import { toAddress } from "./state.js";
import { command, python, savePage, savePng, saveSvg } from "./share.js";

const TABS = [["translate", "Translate"], ["attention", "Attention"], ["search", "Search"], ["hmm", "Hidden states"], ["stacks", "Stacks"], ["gates", "Gates"], ["influence", "Influence"], ["layers", "Layers"], ["embeddings", "Embeddings"], ["positions", "Positions"], ["compare", "Two models"], ["curves", "A run"]];
const KINDS = { cross: "Output to source", encoder: "Encoder", decoder: "Decoder" };

export function header(app, model, act) {
  const { state } = app;
  const views = new Set((model?.views ?? []).map(name => (name === "translation" ? "translate" : name)));
  if (app.runs.length > 1 && views.has("translate")) views.add("compare");
  const go = (event, view) => {
    event.preventDefault();
    act.set({ view, cell: null, node: null, step: null });
  };
  return html`<header class="top">
    <div class="brand"><span>seqloom</span> studio</div>
    <label>Run ${pick(app, state.run, run => act.set({ run, prefix: [], candidate: null, place: null, head: null, kind: null, token: null, off: [], pins: [], checkpoint: null, cell: null, node: null }))}</label>
    ${state.view === "compare" || state.view === "curves" ? html`<label>${state.view === "compare" ? "and" : "with"} ${pick(app, state.other, other => act.set({ other }), state.view === "curves")}</label>` : nothing}
    <nav class="tabs" aria-label="Views">${TABS.filter(([view]) => views.has(view)).map(([view, name]) => html`<a href=${toAddress({ ...state, view })}
      aria-current=${state.view === view ? "page" : nothing} @click=${event => go(event, view)}>${name}</a>`)}</nav>
    <div class="right">
      <select aria-label="Colours" @change=${event => theme(event.target.value)}>${["system", "light", "dark"].map(name => html`<option value=${name === "system" ? "" : name}
        ?selected=${(document.documentElement.dataset.theme ?? "") === (name === "system" ? "" : name)}>${name}</option>`)}</select>
      <button aria-pressed=${Boolean(state.large)} @click=${() => act.set({ large: !state.large })}>Large type</button>
      <div class="menu"><button aria-expanded=${app.menuOpen} @click=${() => menu(app, act, !app.menuOpen)}>Share</button>${app.menuOpen ? shareMenu(app, act) : nothing}</div>
    </div>
  </header>`;
}

function pick(app, chosen, choose, optional = false) {
  return html`<select @change=${event => choose(event.target.value)}>
    ${optional || !app.runs.some(one => one.name === chosen) ? html`<option value="" ?selected=${!chosen}>${optional ? "no other run" : "choose a run"}</option>` : nothing}
    ${app.runs.map(one => html`<option value=${one.name} ?selected=${one.name === chosen}>${readableText(one.name)}</option>`)}</select>`;
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  localStorage.setItem("theme", name);
}

export function menu(app, act, open) {
  app.menuOpen = open;
  act.set({});
}

function shareMenu(app, act) {
  const run = app.runs.find(one => one.name === app.state.run);
  const wanted = app.documents().slots.get("main");
  const [view, fields] = wanted?.key ? JSON.parse(wanted.key) : ["model", {}];
  const { run: _, ...given } = fields;
  const forced = app.documents().fresh("forced")?.hypotheses[0].text;
  const copy = async text => {
    await navigator.clipboard.writeText(text);
    act.notify("Copied.");
    menu(app, act, false);
  };
  const save = async work => {
    try {
      await work();
    } catch (error) {
      act.notify(error.message);
    }
    menu(app, act, false);
  };
  const page = document.getElementById("page");
  return html`<div role="group" aria-label="Share" @keydown=${event => event.key === "Escape" && menu(app, act, false)}>
    <button @click=${() => copy(command(app.state, run.folder, forced))}>Copy as command</button>
    <button @click=${() => copy(python(view, run.folder, given))}>Copy as Python</button>
    <button @click=${() => copy(location.href)}>Copy the address</button>
    <button @click=${() => save(() => savePage(wanted.document, `${run.name}: ${app.state.text ?? ""}`, app.state))}>Save as HTML</button>
    <button @click=${() => save(() => saveSvg(page))}>Save picture as SVG</button>
    <button @click=${() => save(() => savePng(page))}>Save picture as PNG</button>
  </div>`;
}

export function controls(app, model, act) {
  const { state } = app;
  return html`<h1 class="muted small">${model.architecture} · ${state.checkpoint ?? model.checkpoint}</h1>
    ${["curves", "embeddings", "positions"].includes(state.view) ? nothing : source(app, model, act)}
    ${state.view === "translate" ? options(app, model, act) : nothing}
    ${state.view === "attention" && model.attention.length > 1 ? html`<div class="controls">${choice("Kind of attention", model.attention.map(kind => [kind, KINDS[kind]]),
      state.kind ?? model.attention[0], kind => act.set({ kind, cell: null }))}</div>` : nothing}
    ${forcedBar(app, act)}`;
}

function source(app, model, act) {
  const { state } = app;
  const steps = model.checkpoints;
  return html`<div class="source"><label for="source">Source text</label>
    <textarea id="source" rows="2" dir="auto" spellcheck="false" .value=${state.text ?? ""}
      @input=${event => act.set({ text: event.target.value, prefix: [], candidate: null, off: [], pins: [], place: null, node: null, step: null, cell: null })}></textarea></div>
    ${steps.length > 1 ? html`<div class="controls"><label class="slider"><span>Checkpoint <output>${state.checkpoint ?? `${model.checkpoint} (best)`}</output></span>
      <input type="range" min="0" max=${steps.length} .value=${String(state.checkpoint ? steps.indexOf(state.checkpoint) : steps.length)}
        @input=${event => act.set({ checkpoint: steps[Number(event.target.value)] ?? null, place: null })}></label></div>` : nothing}`;
}

function options(app, model, act) {
  const { state } = app;
  const number = name => event => act.set({ [name]: event.target.value === "" ? null : Number(event.target.value), place: null });
  const text = name => event => act.set({ [name]: event.target.value, place: null });
  const sampling = state.temperature !== null && state.temperature !== undefined;
  return html`<details class="options" ?open=${Boolean(state.beam || state.require || state.forbid || sampling || state.penalty)}><summary>Search options</summary><div class="fields">
    <label>Beam <input class="narrow" type="number" min="1" max="50" placeholder=${model.beam} .value=${state.beam ?? ""} @change=${number("beam")}></label>
    <label>Outputs <input class="narrow" type="number" min="1" max="50" placeholder="5" .value=${state.nbest ?? ""} @change=${number("nbest")}></label>
    <label>Length penalty <input class="narrow" type="number" min="0" max="10" step="0.1" placeholder=${model.length_penalty} .value=${state.penalty ?? ""} @change=${number("penalty")}></label>
    <label>Temperature <input class="narrow" type="number" min="0" max="10" step="0.1" placeholder="off" .value=${state.temperature ?? ""} @change=${number("temperature")}></label>
    ${sampling ? html`<label>Seed <input class="narrow" type="number" min="0" placeholder="1" .value=${state.seed ?? ""} @change=${number("seed")}></label>` : nothing}
    <label>Required words (a; b) <input type="text" .value=${state.require ?? ""} @change=${text("require")}></label>
    <label>Forbidden words (a; b) <input type="text" .value=${state.forbid ?? ""} @change=${text("forbid")}></label>
  </div></details>`;
}

function forcedBar(app, act) {
  const { state, undo, redo } = app;
  if (!state.prefix.length && !undo.length && !redo.length) return nothing;
  if (state.view !== "translate" && state.view !== "attention") return nothing;
  return html`<div class="controls">
    ${state.prefix.length ? html`<span>Forced beginning: ${state.prefix.map(token => html`<span class="key"><bdi>${tokenLabel(token)}</bdi></span>`)}</span>` : nothing}
    <button ?disabled=${!undo.length} @click=${act.undo}>Undo</button><button ?disabled=${!redo.length} @click=${act.redo}>Redo</button>
    ${state.prefix.length ? html`<button @click=${act.release}>Release</button>` : nothing}</div>`;
}
