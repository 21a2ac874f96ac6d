// Copying and saving what is shown.

import { compacted, phrases } from "./state.js";

const quoted = text => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// The command that prints the document which is shown; `target` is the output of a forced beginning.
export function command(state, folder, target) {
  const view = { translate: "translation" }[state.view] ?? state.view;
  const words = ["seqloom", "inspect", view, quoted(folder)];
  if (view === "curves" || view === "positions") return `seqloom inspect ${view} ${quoted(folder)} --json`;
  if (view === "embeddings") {
    if (state.token) words.push("--token", quoted(state.token));
    if (state.side) words.push("--side", quoted(state.side));
    if (state.checkpoint) words.push("--checkpoint", quoted(state.checkpoint));
    return [...words, "--json"].join(" ");
  }
  words.push(quoted(state.text ?? ""));
  const options = {
    translation: { "--beam": state.beam, "--nbest": state.nbest, "--length-penalty": state.penalty, "--temperature": state.temperature, "--seed": state.temperature == null ? null : state.seed },
    attention: { "--kind": state.kind }, search: { "--beam": state.beam, "--target": state.candidate || null }, stacks: { "--beam": state.beam },
  }[view] ?? {};
  for (const [name, value] of Object.entries(options)) if (value !== null && value !== undefined) words.push(name, quoted(String(value)));
  if (view === "translation") {
    for (const token of state.prefix) words.push("--prefix-token", quoted(token));
    for (const word of phrases(state.require)) words.push("--require", quoted(word));
    for (const word of phrases(state.forbid)) words.push("--forbid", quoted(word));
  }
  if (view === "attention" && target !== undefined) words.push("--target", quoted(target));
  if (state.checkpoint) words.push("--checkpoint", quoted(state.checkpoint));
  words.push("--json");
  return words.join(" ");
}

export function python(view, folder, fields) {
  return `from seqloom.inspect.viewed_run import ViewedRun\nfrom seqloom.inspect.views import document\n\nfound = document(ViewedRun(${JSON.stringify(folder)}), ${JSON.stringify(view)}, ${pythonValue(fields)})\n`;
}

function pythonValue(value) {
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  if (value && typeof value === "object") return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${pythonValue(one)}`).join(", ")}}`;
  return value === true ? "True" : value === false ? "False" : value === null ? "None" : JSON.stringify(value);
}

export async function savePage(document, title, state) {
  const response = await fetch("api/page", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ document, title, state: compacted(state) }) });
  if (!response.ok) throw new Error((await response.json()).error);
  download(await response.blob(), `${document.view}.html`);
}

// The first picture of the page as an SVG file that needs no style sheet.
export async function pictureText(root) {
  const picture = root.querySelector(".picture svg");
  if (!picture) throw new Error("There is no picture in this view.");
  const style = await (await fetch("static/style.css")).text();
  const copy = picture.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("data-theme", isDark() ? "dark" : "light");
  const sheet = document.createElementNS("http://www.w3.org/2000/svg", "style");
  sheet.textContent = style;
  const back = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  back.setAttribute("width", "100%");
  back.setAttribute("height", "100%");
  back.setAttribute("class", "paper");
  copy.prepend(sheet, back);
  return new XMLSerializer().serializeToString(copy);
}

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export async function saveSvg(root) {
  download(new Blob([await pictureText(root)], { type: "image/svg+xml" }), "figure.svg");
}

export async function savePng(root) {
  const { width, height } = root.querySelector(".picture svg")?.viewBox.baseVal ?? {};
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([await pictureText(root)], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  download(await new Promise(resolve => canvas.toBlob(resolve)), "figure.png");
}

export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 5000);
}

