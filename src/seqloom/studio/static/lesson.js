// A lesson: states of the page, each with a heading and a paragraph; arrow keys lead from one to the next.

import { html, nothing } from "./lit-html.js";
import { readableText } from "./text.js";

const KEYS = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 };

export function lessonBar(app, act) {
  const { lesson, state } = app;
  if (!lesson) return nothing;
  const number = stepOf(lesson, state);
  const step = lesson.steps[number];
  return html`<section class="lesson" aria-label="Lesson">
    <div class="lesson-head"><p class="muted"><bdi>${readableText(lesson.title)}</bdi> · <span role="status">${number + 1} of ${lesson.steps.length}</span></p>
      <div class="lesson-keys">
        <button ?disabled=${number === 0} @click=${() => act.step(number - 1)}>← Back</button>
        <button ?disabled=${number === lesson.steps.length - 1} @click=${() => act.step(number + 1)}>Next →</button>
        <button @click=${() => act.step(number)}>Restart step</button>
        <button aria-pressed=${Boolean(state.present)} aria-keyshortcuts="p" @click=${() => act.set({ present: !state.present })}>Present (P)</button>
      </div></div>
    <h1 dir="auto">${readableText(step.heading)}</h1>
    ${step.paragraph.split("\n").map(text => html`<p class="lesson-text" dir="auto">${readableText(text)}</p>`)}
    ${step.state.text === "" && !state.text ? html`<p class="note">The data of this run is gone, so the lesson has no text: type one.</p>` : nothing}
  </section>`;
}

export function stepOf(lesson, state) {
  return Math.max(0, Math.min(lesson.steps.length - 1, (state.lesson ?? 1) - 1));
}

// The state of a step; the presentation stays as it is.
export function stateOfStep(lesson, number, { large, present }) {
  return { prefix: [], ...lesson.steps[number].state, lesson: number + 1, large, present };
}

// Arrow and page keys of a lesson, unless something that uses them itself has the focus.
export function lessonKey(event, app, act) {
  const busy = event.target.closest?.("input, textarea, select, [tabindex]");
  if (!app.lesson || busy || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  if (event.key.toLowerCase() === "p") act.set({ present: !app.state.present });
  const step = stepOf(app.lesson, app.state) + (KEYS[event.key] ?? 0);
  if (!(event.key in KEYS) || !app.lesson.steps[step]) return;
  event.preventDefault();
  act.step(step);
}
