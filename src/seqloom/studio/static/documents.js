// Documents from the server: one request per slot; a newer request for a slot cancels the older one.

const KEPT = 40;

export class Documents {
  constructor(changed) {
    this.changed = changed;
    this.slots = new Map(); // slot -> { key, document, error, busy, controller }
    this.kept = new Map(); // key -> document
  }

  get(slot) {
    return this.slots.get(slot)?.document ?? null;
  }

  // The document of a slot, unless a newer one is on its way.
  fresh(slot) {
    const one = this.slots.get(slot);
    return one && !one.busy ? one.document ?? null : null;
  }

  error(slot) {
    return this.slots.get(slot)?.error ?? null;
  }

  get busy() {
    return [...this.slots.values()].some(one => one.busy);
  }

  // Ask for these documents ({ slot: { view, fields } }), and forget all other slots.
  want(wanted) {
    for (const [slot, one] of this.slots) {
      if (!(slot in wanted)) {
        one.controller?.abort();
        this.slots.delete(slot);
      }
    }
    for (const [slot, { view, fields }] of Object.entries(wanted)) this.load(slot, view, fields);
  }

  async load(slot, view, fields) {
    const key = JSON.stringify([view, fields]);
    const before = this.slots.get(slot);
    if (before?.key === key) return;
    before?.controller?.abort();
    if (this.kept.has(key)) {
      this.slots.set(slot, { key, run: fields.run, document: this.kept.get(key) });
      return;
    }
    const controller = new AbortController();
    const stays = before?.document?.view === view && before.run === fields.run; // never under the name of another run
    const one = { key, run: fields.run, document: stays ? before.document : null, busy: true, controller };
    this.slots.set(slot, one);
    try {
      const found = await ask(view, fields, controller.signal);
      Object.assign(one, { document: found, busy: false });
      this.keep(key, found);
    } catch (error) {
      if (controller.signal.aborted) return;
      Object.assign(one, { document: null, error, busy: false });
      if (error.retry) setTimeout(() => this.retry(slot, one, view, fields), 1500);
    }
    this.changed();
  }

  retry(slot, one, view, fields) {
    if (this.slots.get(slot) !== one) return;
    one.key = null;
    this.load(slot, view, fields);
    this.changed();
  }

  keep(key, found) {
    this.kept.set(key, found);
    if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
  }

  // Load a slot again, and everything else the next time it is needed.
  refresh(slot) {
    this.kept.clear();
    const one = this.slots.get(slot);
    if (one) one.key = null;
  }
}

export async function ask(view, fields, signal) {
  let response;
  try {
    response = await fetch(`api/${view}`, { method: "POST", signal, headers: { "content-type": "application/json" }, body: JSON.stringify(fields) });
  } catch (error) {
    throw signal?.aborted ? error : Object.assign(new Error("The studio does not answer."), { hint: "start it again: seqloom studio", retry: true });
  }
  if (response.ok) return response.json();
  const text = await response.text();
  let found = { error: text, hint: "" };
  try {
    found = JSON.parse(text);
  } catch { /* a plain refusal */ }
  throw Object.assign(new Error(found.error), { hint: found.hint, retry: response.status === 503 });
}
