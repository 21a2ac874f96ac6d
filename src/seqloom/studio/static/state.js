// The state of the page, which is also its address.

const TEXT = value => value;
const NUMBER = value => (value === "" || Number.isNaN(Number(value)) ? null : Number(value));
const FLAG = value => value === "1";
const LIST = value => {
  try {
    const found = JSON.parse(value);
    return Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
};

const KINDS = {
  view: TEXT, run: TEXT, other: TEXT, text: TEXT, prefix: LIST, place: LIST, beam: NUMBER, nbest: NUMBER, penalty: NUMBER, temperature: NUMBER,
  seed: NUMBER, require: TEXT, forbid: TEXT, kind: TEXT, head: LIST, drawing: TEXT, words: FLAG, step: NUMBER, node: NUMBER,
  hidePruned: FLAG, gateLayer: NUMBER, checkpoint: TEXT, candidate: TEXT, side: TEXT, token: TEXT, off: LIST, pins: LIST, large: FLAG, present: FLAG, lesson: NUMBER,
};

export function fromAddress(hash) {
  const state = {};
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (name in KINDS) state[name] = KINDS[name](value);
  }
  state.prefix = (state.prefix ?? []).filter(token => typeof token === "string");
  return state;
}

export function toAddress(state) {
  const found = new URLSearchParams();
  for (const [name, kind] of Object.entries(KINDS)) {
    const value = state[name];
    if (value === null || value === undefined || value === "" || value === false || (Array.isArray(value) && !value.length)) continue;
    found.set(name, kind === LIST ? JSON.stringify(value) : kind === FLAG ? "1" : String(value));
  }
  return `#${found}`;
}

// Words and phrases of a field, separated by semicolons.
export function phrases(text) {
  return (text ?? "").split(";").map(one => one.trim()).filter(Boolean);
}

// Fields of the translation view, without those at their defaults.
export function translationFields(state, prefix) {
  return compacted({
    text: state.text ?? "", prefix_tokens: prefix, beam: state.beam, nbest: state.nbest, length_penalty: state.penalty,
    temperature: state.temperature, seed: state.temperature == null ? null : state.seed,
    require: phrases(state.require), forbid: phrases(state.forbid), checkpoint: state.checkpoint,
  });
}

export function compacted(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([name, value]) =>
    name === "text" || (value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && !value.length))));
}
