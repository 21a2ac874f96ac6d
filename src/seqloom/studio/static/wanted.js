// Which documents a state needs.

import { html } from "./lit-html.js";
import { drawCompare } from "./compare.js";
import { compacted, translationFields } from "./state.js";

export function wantedDocuments(state, documents) {
  if (!state.run) return {};
  const wanted = { model: { view: "model", fields: { run: state.run } } };
  if (!state.view || (state.text === undefined && documents.get("model")?.example)) return wanted;
  const ofRun = (view, fields, run = state.run) => ({ view, fields: { run, ...fields } });
  const text = state.text ?? "";
  if (state.view === "curves") {
    wanted.main = ofRun("curves", {});
    if (state.other) wanted["other-curves"] = ofRun("curves", {}, state.other);
    return wanted;
  }
  if (state.view === "embeddings") wanted.main = ofRun("embeddings", compacted({ side: state.side, token: state.token, checkpoint: state.checkpoint }));
  if (state.view === "positions") wanted.main = ofRun("positions", {});
  if (!text.trim() || wanted.main) return wanted;
  if (state.view === "translate") translate(state, documents, wanted, ofRun);
  else if (state.view === "compare") compare(state, documents, wanted, ofRun);
  else wanted.main = ofRun(state.view, fieldsOf(state, documents, wanted, ofRun));
  return wanted;
}

function translate(state, documents, wanted, ofRun) {
  wanted.main = ofRun("translation", translationFields(state, state.prefix));
  if (state.prefix.length) wanted.free = ofRun("translation", translationFields(state, []));
  const shown = documents.get("main");
  const one = state.place && shown?.view === "translation" ? shown.hypotheses[state.place[0]] : null;
  if (one && state.place[1] < one.tokens.length && one.log_probs.length) {
    wanted.alternatives = ofRun("alternatives", compacted({
      text: state.text, prefix_tokens: one.tokens.slice(0, state.place[1]), token: one.tokens[state.place[1]], checkpoint: state.checkpoint,
    }));
  }
}

function fieldsOf(state, documents, wanted, ofRun) {
  const base = { text: state.text, checkpoint: state.checkpoint };
  if (state.view === "search" && state.candidate) {
    wanted.verdict = ofRun("verdict", compacted({ ...base, target: state.candidate, beam: state.beam }));
  }
  if (state.view === "search" || state.view === "stacks") return compacted({ ...base, beam: state.beam });
  if (state.view === "attention" && (state.off?.length || state.pins?.length)) {
    wanted.intervention = ofRun("intervention", compacted({ ...base, off: state.off, pins: state.pins }));
  }
  if (state.view === "attention") return compacted({ ...base, kind: state.kind, target_tokens: forcedTarget(state, documents, wanted, ofRun) });
  return compacted(base);
}

// Tokens of the output with a forced beginning, whose attention is then shown.
function forcedTarget(state, documents, wanted, ofRun) {
  if (!state.prefix.length || state.kind === "encoder") return null;
  wanted.forced = ofRun("translation", translationFields(state, state.prefix));
  return documents.fresh("forced")?.hypotheses[0].tokens.filter(token => token !== "</s>") ?? null;
}

function compare(state, documents, wanted, ofRun) {
  const other = state.other ?? state.run;
  const fields = compacted({ text: state.text, beam: state.beam });
  wanted.main = ofRun("translation", fields);
  wanted.second = ofRun("translation", fields, other);
  const [first, second] = [documents.fresh("main"), documents.fresh("second")];
  if (first?.view !== "translation" || second?.view !== "translation") return;
  const texts = [first, second].map(doc => doc.hypotheses[0].text);
  wanted["score-first"] = ofRun("score", { text: state.text, target: texts[0] }, other);
  wanted["score-second"] = ofRun("score", { text: state.text, target: texts[1] });
  if (texts[0] === texts[1]) return;
  const words = texts.map(text => text.split(" "));
  let same = words[0].findIndex((word, i) => word !== words[1][i]);
  if (same < 0) same = words[0].length;
  const prefix = i => words[i].slice(0, same + 1).join(" ");
  wanted["continued-first"] = ofRun("translation", { ...fields, prefix: prefix(0) }, other);
  wanted["continued-second"] = ofRun("translation", { ...fields, prefix: prefix(1) });
}

export function compareView(state, documents) {
  const names = [state.run, state.other ?? state.run];
  const docs = ["main", "second", "score-first", "score-second"].map(slot => documents.fresh(slot));
  const error = ["main", "second"].map(slot => documents.error(slot)).find(Boolean);
  if (error) return html`<div class="error" role="alert"><p>${error.message}</p></div>`;
  return drawCompare(names, docs, [documents.fresh("continued-first"), documents.fresh("continued-second")]);
}
