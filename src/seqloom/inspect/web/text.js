// Readable tokens and numbers.

export const END = "</s>";
export const START = "<s>";
const SPECIAL = { [END]: "(end)", [START]: "(start)" };
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// Text with control characters replaced, so that none of them changes the order of what follows.
export function readableText(text) {
  return text.replace(INVISIBLE, "\ufffd");
}

// Tokens as labels: the mark of a space is left out if every token is a word, else it is a dot.
export function labelsOf(tokens) {
  const words = tokens.filter(token => !(token in SPECIAL));
  const allWords = words.length > 0 && words.every(token => token.length > 1 && token.startsWith("▁"));
  return tokens.map(token => SPECIAL[token] ?? tokenLabel(allWords ? token.slice(1) : token));
}

export function tokenLabel(token) {
  if (token in SPECIAL) return SPECIAL[token];
  return token === "▁" ? "␣" : readableText(token).replaceAll("▁", "·");
}

export function shortText(text, most = 24) {
  const characters = [...text];
  return characters.length <= most ? text : characters.slice(0, most - 1).join("") + "…";
}

// Tokens as running text.
export function spelledOut(tokens) {
  const shown = tokens.filter(token => !(token in SPECIAL));
  const marked = shown.some(token => token.startsWith("▁"));
  return readableText(marked ? shown.join("").replaceAll("▁", " ").trim() : shown.join(" "));
}

export function decimal(value, digits = 2) {
  if (value === null || value === undefined) return "−∞";
  return value.toFixed(digits).replace("-", "−");
}

export function signed(value, digits = 2) {
  return (value > 0 ? "+" : "") + decimal(value, digits);
}

export function probability(logProb) {
  return logProb === null ? 0 : Math.exp(logProb);
}

// A probability in few characters: .97, .05, <.01
export function shortProbability(p) {
  if (p >= 0.995) return "1.0";
  return p < 0.01 ? "<.01" : p.toFixed(2).slice(1);
}

// One of ten classes, for shading without inline style.
export function level(value) {
  return Math.max(0, Math.min(9, Math.floor(value * 10)));
}

// Number of the word of every token; a word begins with ▁.
export function wordNumbers(tokens) {
  const numbers = [];
  tokens.forEach((token, i) => {
    const begins = token.startsWith("▁") || token in SPECIAL || tokens[i - 1] === START;
    numbers.push(i === 0 ? 0 : numbers[i - 1] + (begins ? 1 : 0));
  });
  return numbers;
}

// Tokens and weights by word: summed over the tokens of a source word, averaged over those of a target word.
export function mergedWords(source, target, rows) {
  const [columns, lines] = [wordNumbers(source), wordNumbers(target)];
  const join = (tokens, numbers) => {
    const words = [];
    tokens.forEach((token, i) => { words[numbers[i]] = (words[numbers[i]] ?? "") + token; });
    return words;
  };
  const [sources, targets] = [join(source, columns), join(target, lines)];
  const sums = targets.map(() => new Array(sources.length).fill(0));
  const counts = targets.map(() => 0);
  rows.forEach((row, t) => {
    counts[lines[t]] += 1;
    row.forEach((weight, s) => { sums[lines[t]][columns[s]] += weight; });
  });
  return {
    source: sources,
    target: targets,
    rows: sums.map((row, t) => row.map(value => value / counts[t])),
  };
}
