// The page: address, header, controls, and the view that is shown.

import { html, nothing, render } from "./lit-html.js";
import { ask, Documents } from "./documents.js";
import { compareView, wantedDocuments } from "./wanted.js";
import { controls, header, menu } from "./frame.js";
import { lessonBar, lessonKey, stateOfStep } from "./lesson.js";
import { DRAWINGS } from "./page.js";
import { fromAddress, toAddress } from "./state.js";

const app = { state: fromAddress(location.hash), runs: [], lesson: null, toast: "", undo: [], redo: [], menuOpen: false, documents: () => documents };
const documents = new Documents(() => draw());
let events = null;

history.replaceState(null, "", location.pathname + location.hash); // the token leaves the address
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";

// Change the state, the address and the page.
function set(patch) {
  Object.assign(app.state, patch);
  history.replaceState(null, "", toAddress(app.state));
  draw();
}

// Force a beginning of the output; what was before can be restored.
function setPrefix(prefix) {
  app.undo.push(app.state.prefix);
  app.redo = [];
  set({ prefix, place: null });
}

const act = {
  force: tokens => setPrefix(tokens.filter(token => token !== "</s>")),
  async forceText(tokens, text) {
    try {
      const found = await ask("translation", { run: app.state.run, text: app.state.text ?? "", prefix_tokens: tokens, prefix: text, nbest: 1 });
      setPrefix(found.prefix_tokens);
    } catch (error) {
      notify(error.message);
    }
  },
  undo: () => step(app.undo, app.redo),
  redo: () => step(app.redo, app.undo),
  release: () => setPrefix([]),
  step: number => {
    app.undo = [];
    app.redo = [];
    app.state = stateOfStep(app.lesson, number, app.state);
    set({});
    scrollTo(0, 0);
  },
  judge: candidate => set({ candidate }),
  beam: beam => set({ beam, node: null, step: null }),
  notify,
  set,
};

function step(from, to) {
  if (!from.length) return;
  to.push(app.state.prefix);
  set({ prefix: from.pop(), place: null });
}

function notify(text) {
  app.toast = text;
  draw();
  clearTimeout(notify.timer);
  notify.timer = setTimeout(() => { app.toast = ""; draw(); }, 4000);
}

// A lesson is shown in large type, without the header.
function presenting() {
  return Boolean(app.state.present && app.lesson);
}

// Views of the chosen run; its document tells which it has.
function model() {
  return documents.get("model");
}

function draw() {
  const { state } = app;
  documents.want(wantedDocuments(state, documents));
  const found = model();
  if (found && found.name !== draw.shown) begin(found);
  document.documentElement.classList.toggle("large", Boolean(state.large || presenting()));
  document.title = `${state.run ?? "runs"} · seqloom studio`;
  follow();
  render(html`${presenting() ? nothing : header(app, found, act)}
    <main class="studio" aria-busy=${documents.busy}>
      ${lessonBar(app, act)}
      ${found ? controls(app, found, act) : nothing}
      <div class=${documents.busy ? "bar-line busy" : "bar-line"}></div>
      ${view(found)}
    </main>
    ${app.toast ? html`<div class="toast" role="status">${app.toast}</div>` : nothing}`, document.getElementById("page"));
}

// Choose a view that the run has, and a text to begin with.
function begin(found) {
  draw.shown = found.name;
  const known = [...found.views.map(name => (name === "translation" ? "translate" : name)), ...(app.runs.length > 1 ? ["compare"] : [])];
  const patch = {};
  if (!app.lesson && !known.includes(app.state.view)) patch.view = known[0] ?? "curves";
  if (app.state.text === undefined && found.example) patch.text = found.example;
  if (Object.keys(patch).length) queueMicrotask(() => set(patch));
}

function view(found) {
  const { state } = app;
  const error = documents.error("model") ?? documents.error("main") ?? documents.error("verdict") ?? documents.error("intervention");
  if (error) return html`<div class="error" role="alert"><p>${error.message}</p>${error.hint ? html`<p class="muted">${error.hint}</p>` : nothing}</div>`;
  if (state.view === "compare") return compareView(state, documents);
  const shown = documents.get("main");
  if (!found || !shown) return html`<p class="muted">${found ? "" : "Loading the model …"}</p>`;
  if (!DRAWINGS[shown.view]) return nothing;
  const more = {
    alternatives: documents.fresh("alternatives"), free: documents.fresh("free"), alignmentHead: found.alignment_head,
    verdict: documents.fresh("verdict"), intervention: documents.fresh("intervention"), changeable: found.changeable,
    others: documents.fresh("other-curves") ? [documents.fresh("other-curves")] : [],
  };
  return DRAWINGS[shown.view](shown, state, set, act, more);
}

// Curves follow the run while it trains.
function follow() {
  const run = app.state.view === "curves" ? app.state.run : null;
  if (events?.run === run) return;
  events?.source?.close();
  events = { run, source: run ? new EventSource(`api/events?run=${encodeURIComponent(run)}`) : null };
  let first = true;
  if (events.source) {
    events.source.onmessage = () => {
      if (!first) {
        documents.refresh("main");
        draw();
      }
      first = false;
    };
  }
}

addEventListener("hashchange", () => {
  app.state = fromAddress(location.hash);
  draw();
});
addEventListener("keydown", event => {
  const typing = ["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName);
  if (typing || !(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
  event.preventDefault();
  if (event.shiftKey) act.redo();
  else act.undo();
});
addEventListener("keydown", event => lessonKey(event, app, act));
addEventListener("click", event => {
  if (app.menuOpen && !event.target.closest(".menu")) menu(app, act, false);
});

document.getElementById("page").replaceChildren();
const response = await fetch("api/runs");
({ runs: app.runs, lesson: app.lesson } = response.ok ? await response.json() : { runs: [], lesson: null });
if (app.lesson && !app.state.lesson) app.state = stateOfStep(app.lesson, 0, app.state);
if (!app.runs.some(one => one.name === app.state.run)) app.state.run = app.runs[0]?.name;
draw();
