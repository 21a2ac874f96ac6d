// Published JavaScript clients against a server: URL, key, wrong key, and a key that has sent too many requests.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url, key, wrong, slowed] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const { translate: libretranslate } = require("libretranslate");
const { libreTranslate } = require("libretranslate-ts");
const translate = (await import(pathToFileURL(require.resolve("translate")))).default;
const text = "Hello there. Ä & ß!";

translate.engine = "libre";
translate.url = `${url}/translate`;
const simple = (own, to, input) => {
  translate.key = own;
  return translate(input, { from: "en", to });
};
assert.equal(await simple(key, "de", text), text);
await assert.rejects(simple(key, "fr", text), /fr is not supported/);
await assert.rejects(simple(wrong, "de", "another text"), /Invalid API key/); // texts are cached
await assert.rejects(simple(slowed, "de", "a third text"), /Slowdown/);

const asked = { query: text, source: "en", target: "de", apiurl: url, apiKey: key };
assert.equal(await libretranslate(asked), text);
await assert.rejects(libretranslate({ ...asked, target: "fr" }), TypeError);
assert.equal(await libretranslate({ ...asked, apiKey: wrong }), undefined);
assert.equal(await libretranslate({ ...asked, apiKey: slowed }), undefined);

libreTranslate.setApiEndpoint(url);
assert.match((await libreTranslate.translate(text, "en", "de")).error, /API key/); // sends api_key: null
libreTranslate.setApiKey(key);
assert.equal((await libreTranslate.translate(text, "en", "de")).translatedText, text);
assert.deepEqual((await libreTranslate.translate("Hi", "en", "de", 1)).alternatives, ["Hi ?"]);
assert.deepEqual((await libreTranslate.listLanguages()).map((one) => one.code), ["de", "en"]);
assert.equal((await libreTranslate.detect("The weather is very nice")).language, "en");
assert.match((await libreTranslate.translate(text, "en", "fr")).error, /fr is not supported/);
libreTranslate.setApiKey(slowed);
assert.match((await libreTranslate.translate(text, "en", "de")).error, /Slowdown/);
console.log("ok");
