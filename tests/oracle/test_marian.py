"""Imported and exported Marian models against Marian in NumPy, and against transformers if it is there."""

from __future__ import annotations

import io
import json
import math
import re
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from seqloom.data.batching import collate_ids
from seqloom.export.marian.export import export_marian
from seqloom.export.marian.load import import_marian
from seqloom.run.build import load_model
from seqloom.run.directory import Run
from seqloom.run.load import load
from seqloom.run.train import train
from seqloom.types import EOS
from support.configs import TINY_TRANSFORMER

Array = NDArray[np.float64]

NOUNS = {"cat": "chat", "dog": "chien", "bird": "oiseau", "house": "maison", "tree": "arbre", "river": "fleuve"}
VERBS = {"sees": "voit", "likes": "aime", "finds": "trouve", "hears": "entend", "draws": "dessine"}
PAIRS = [
    (f"The {a} {verb} the {b}.", f"Le {NOUNS[a]} {VERBS[verb]} le {NOUNS[b]}.")
    for a in NOUNS
    for verb in VERBS
    for b in NOUNS
]
PLAIN = [PAIRS[i][0] for i in (0, 31, 77, 102, 150)] + ["A  „wild“ ½ Wörd…", "tree"]
LINES = [*PLAIN, ">>fra<< The cat", ">>deu<< cat"]  # the second code is in no vocabulary


def spm(lines: list[str]) -> bytes:
    """A SentencePiece model as those of OPUS-MT are: its own normalisation, no padding symbol."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=70, hard_vocab_limit=False, minloglevel=2
    )
    return model.getvalue()


def pieces_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(id) for id in range(3, processor.get_piece_size())]


def write_folder(folder: Path, *, separate: bool = False, **changes: Any) -> Path:
    """A folder in the layout of OPUS-MT: eos 0, unk 1, the padding symbol last and first of every target."""
    folder.mkdir()
    models = [spm([pair[side] for pair in PAIRS]) for side in (0, 1)]
    pieces = [pieces_of(model) for model in models]
    shared = sorted({piece for side in pieces for piece in side})
    if separate:  # the padding symbol needs one id for both sides, so the shorter one is filled up
        longest = max(map(len, pieces))
        sides = [[*side, *(f"spare{i}" for i in range(longest - len(side)))] for side in pieces]
    else:
        sides = [shared]
    names = ["vocab.json", "target_vocab.json"]
    vocabularies = [["</s>", "<unk>", ">>fra<<", *side, "<pad>"] for side in sides]
    for name, vocabulary in zip(names, vocabularies, strict=False):
        (folder / name).write_text(json.dumps({piece: id for id, piece in enumerate(vocabulary)}))
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    size = len(vocabularies[0])
    pad = size - 1
    config = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "activation_function": "swish",
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": not separate,
        "tie_word_embeddings": True,
        "vocab_size": size,
        "decoder_vocab_size": size,
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "bos_token_id": 0,
        "max_position_embeddings": 64,
        "dropout": 0.1,
        **changes,
    }
    generation = {
        "num_beams": 4,
        "max_length": 40,
        "bad_words_ids": [[pad]],
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "renormalize_logits": changes.get("renormalize_logits", False),
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps(generation))
    options = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    save_file(random_weights(config), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def random_weights(config: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    draw = np.random.default_rng(3)
    width, inner, size = config["d_model"], config["encoder_ffn_dim"], config["vocab_size"]
    weights: dict[str, Any] = {"final_logits_bias": draw.normal(size=(1, size))}
    shared = config["share_encoder_decoder_embeddings"]
    sides = ["shared"] if shared else ["encoder.embed_tokens", "decoder.embed_tokens"]
    for name in sides:
        weights[f"model.{name}.weight"] = draw.normal(size=(size, width)) / 3
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = draw.normal(size=(size, width)) / 3
    for stack in ("encoder", "decoder"):
        for layer in range(config[f"{stack}_layers"]):
            at = f"model.{stack}.layers.{layer}"
            attentions = ["self_attn", "encoder_attn"][: 1 + (stack == "decoder")]
            shapes = {
                f"{attention}.{part}": (width, width)
                for attention in attentions
                for part in ("q_proj", "k_proj", "v_proj", "out_proj")
            }
            shapes |= {"fc1": (inner, width), "fc2": (width, inner)}
            for name, shape in shapes.items():
                weights[f"{at}.{name}.weight"] = draw.normal(size=shape) / math.sqrt(shape[1])
                weights[f"{at}.{name}.bias"] = draw.normal(size=shape[0]) / 2
            for name in [f"{attention}_layer_norm" for attention in attentions] + ["final_layer_norm"]:
                weights[f"{at}.{name}.weight"] = 1 + draw.normal(size=width) / 4
                weights[f"{at}.{name}.bias"] = draw.normal(size=width) / 4
    return {name: weight.astype(np.float32) for name, weight in weights.items()}


class Marian:
    """Marian as its equations say, one sentence at a time, in float64."""

    def __init__(self, folder: Path) -> None:
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        self.weights = {
            name: array.astype(np.float64) for name, array in load_file(folder / "model.safetensors").items()
        }
        self.source_ids: dict[str, int] = json.loads((folder / "vocab.json").read_text())
        other = folder / "target_vocab.json"
        self.target_ids: dict[str, int] = json.loads(other.read_text()) if other.exists() else self.source_ids
        model = (folder / "source.spm").read_bytes()
        self.spm = sentencepiece.SentencePieceProcessor(model_proto=model)

    def encode_text(self, text: str) -> list[int]:
        pieces = []
        if text.startswith(">>"):
            code, text = text.split("<<", 1)
            pieces.append(code + "<<")
        pieces += self.spm.encode(text, out_type=str)
        return [self.source_ids.get(piece, self.source_ids["<unk>"]) for piece in pieces]

    def logits(self, source: list[int], target: list[int]) -> Array:
        """(T, V) for the ids of a source with its end and of a target with its start."""
        shared = self.config["share_encoder_decoder_embeddings"]
        encoder, decoder = (
            self.weights["model.shared.weight" if shared else f"model.{side}.embed_tokens.weight"]
            for side in ("encoder", "decoder")
        )
        read = self._embed(encoder, source)
        for layer in range(self.config["encoder_layers"]):
            at = f"model.encoder.layers.{layer}"
            read = self._norm(f"{at}.self_attn_layer_norm", read + self._attend(f"{at}.self_attn", read, read))
            read = self._feed_forward(at, read)
        x = self._embed(decoder, target)
        for layer in range(self.config["decoder_layers"]):
            at = f"model.decoder.layers.{layer}"
            own = self._attend(f"{at}.self_attn", x, x, causal=True)
            x = self._norm(f"{at}.self_attn_layer_norm", x + own)
            crossed = self._attend(f"{at}.encoder_attn", x, read)
            x = self._norm(f"{at}.encoder_attn_layer_norm", x + crossed)
            x = self._feed_forward(at, x)
        output = decoder if self.config["tie_word_embeddings"] else self.weights["lm_head.weight"]
        logits: Array = x @ output.T + self.weights["final_logits_bias"][0]
        return logits

    def _embed(self, table: Array, ids: list[int]) -> Array:
        width = self.config["d_model"]
        angles = np.arange(len(ids))[:, None] / 10000 ** (2 * np.arange(width // 2) / width)
        positions = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        return table[ids] * np.sqrt(width) + positions  # type: ignore[no-any-return]

    def _linear(self, name: str, x: Array) -> Array:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _attend(self, name: str, x: Array, to: Array, *, causal: bool = False) -> Array:
        heads = self.config["encoder_attention_heads"]
        q, k, v = (
            np.split(self._linear(f"{name}.{part}_proj", side), heads, axis=1)
            for part, side in (("q", x), ("k", to), ("v", to))
        )
        joined = []
        for one, key, value in zip(q, k, v, strict=True):
            scores = one @ key.T / np.sqrt(one.shape[1])
            if causal:
                scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            joined.append(weights / weights.sum(axis=1, keepdims=True) @ value)
        return self._linear(f"{name}.out_proj", np.concatenate(joined, axis=1))

    def _feed_forward(self, at: str, x: Array) -> Array:
        inner = self._linear(f"{at}.fc1", x)
        name = self.config["activation_function"]
        inner = np.maximum(inner, 0) if name == "relu" else inner / (1 + np.exp(-inner))
        return self._norm(f"{at}.final_layer_norm", x + self._linear(f"{at}.fc2", inner))

    def _norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]  # type: ignore[no-any-return]


def largest_difference(folder: Path, run: Path, lines: list[str] = LINES) -> float:
    """Between the logits of the folder, by NumPy, and those of the run, by the pieces that they are for."""
    marian = Marian(folder)
    model, tokenizers = load_model(Run.open(run))
    start, eos = marian.config["decoder_start_token_id"], marian.config["eos_token_id"]
    names = tokenizers.target.pieces(range(tokenizers.target.size))
    theirs = {id: marian.target_ids[names[id]] for id in range(EOS, tokenizers.target.size)}
    worst = 0.0
    for line in lines:
        source, target = tokenizers.source.encode(line), [5, 9, 4, 31, 7, 7]
        there = marian.logits([*marian.encode_text(line), eos], [start, *(theirs[id] for id in target)])
        with torch.inference_mode():
            here = model(collate_ids([source], [target], [0]))[0].double().numpy()
        worst = max(worst, float(abs(here[:, list(theirs)] - there[:, list(theirs.values())]).max()))
    return worst


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"separate": True},
        {"separate": True, "tie_word_embeddings": False, "activation_function": "relu"},
        {"renormalize_logits": True},
    ],
    ids=["shared", "separate", "untied", "renormalised"],
)
def test_an_imported_model_computes_what_marian_computes(changes: dict[str, Any], tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "marian", **changes)
    import_marian(folder, tmp_path / "run")
    assert largest_difference(folder, tmp_path / "run") < 1e-4


@pytest.mark.parametrize("renormalised", [False, True])
def test_an_imported_model_searches_with_the_probabilities_of_marian(
    renormalised: bool, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "marian", renormalize_logits=renormalised)
    import_marian(folder, tmp_path / "run")
    translator, marian = load(tmp_path / "run", device="cpu"), Marian(folder)
    pad, names = marian.config["pad_token_id"], list(marian.target_ids)
    for line in LINES:
        target, log_probs = [pad], []
        while len(target) < 40 and target[-1] != 0:
            logits = marian.logits([*marian.encode_text(line), 0], target)[-1]
            allowed = np.delete(logits, pad)  # the padding symbol is the last one
            total = np.log(np.exp(allowed if renormalised else logits).sum())
            target.append(int(allowed.argmax()))
            log_probs.append(float(allowed.max() - total))
        answer = translator.translate([line], beam=1)[0][0]
        assert list(answer.tokens) == [names[id] for id in target[1:] if id != 0]
        assert answer.token_log_probs == pytest.approx(log_probs, abs=1e-4)


def test_an_exported_run_computes_what_marian_computes(tmp_path: Path) -> None:
    run, folder = trained(tmp_path), tmp_path / "marian"
    report = export_marian(run, folder, [source for source, _ in PAIRS[:20]])
    assert report.sentences == 20
    assert report.difference < 1e-5
    assert largest_difference(folder, run, PLAIN) < 1e-4
    import_marian(folder, tmp_path / "again")
    assert largest_difference(folder, tmp_path / "again") < 1e-4


def trained(folder: Path, **settings: Any) -> Path:
    """A tiny run of our own that Marian can hold, trained for a few steps."""
    table = folder / "pairs.tsv"
    table.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), encoding="utf-8")
    options = {
        **TINY_TRANSFORMER,
        "model.ffn": 24,
        "text.vocab_size": 400,
        "train.max_steps": 8,
        "train.warmup": 2,
        "train.learning_rate": 0.01,
        "train.threads": 1,
        **settings,
    }
    train(table, out=folder / "ours", model="transformer-postnorm", settings=options, plan="fixed", quiet=True)
    return folder / "ours"


def library() -> Any:
    return pytest.importorskip("transformers", reason="transformers is not installed: nothing to compare with")


def compare(model: Any, tokenizer: Any, run: Path, lines: list[str]) -> dict[str, float]:
    """The largest differences between transformers and a run, and the share of equal answers."""
    ours, tokenizers = load_model(Run.open(run))
    worst = {"logit": 0.0}
    names = tokenizers.target.pieces(range(tokenizers.target.size))
    vocabulary = tokenizer.target_encoder if tokenizer.separate_vocabs else tokenizer.encoder
    columns = {id: vocabulary[names[id]] for id in range(EOS, tokenizers.target.size)}
    for line, target in zip(lines, [pair[1] for pair in PAIRS], strict=False):
        batch = collate_ids([tokenizers.source.encode(line)], [tokenizers.target.encode(target)], [0])
        with torch.inference_mode():
            there = model(**tokenizer([line], text_target=[target], return_tensors="pt")).logits[0]
            here = ours(batch)[0]
        apart = here[:, list(columns)] - there[:, list(columns.values())]
        worst["logit"] = max(worst["logit"], float(apart.abs().max()))
    translator = load(run, device="cpu")
    for beam, penalty in ((1, 0.0), (4, 0.0), (4, 1.0)):
        penalised = translator.with_search({"length_penalty": penalty})
        equal = compared = 0
        for line in lines:
            found = model.generate(
                **tokenizer([line], return_tensors="pt"),
                num_beams=beam,
                length_penalty=penalty,
                output_scores=True,
                return_dict_in_generate=True,
            )
            ids, answer = found.sequences[0], penalised.translate([line], beam=beam)[0][0]
            ended = answer.finished and int(ids[-1]) == model.config.eos_token_id
            if beam > 1 and not ended:  # what was cut is ranked with the rest there, behind it here
                continue
            compared += 1
            equal += answer.text == tokenizer.decode(ids, skip_special_tokens=True)
            if beam > 1:
                apart = answer.score - float(found.sequences_scores[0])
                worst["score"] = max(worst.get("score", 0.0), abs(apart) if penalty == 0 else apart)
        worst[f"beam {beam}, penalty {penalty}"] = equal / compared
    return worst


def check(worst: dict[str, float]) -> None:
    """With a length penalty a longer answer may win, and the beam of transformers looks for one longer."""
    print(worst)
    assert worst["logit"] < 1e-4
    assert worst["score"] < 1e-4
    assert worst["beam 1, penalty 0.0"] == worst["beam 4, penalty 0.0"] == 1
    assert worst["beam 4, penalty 1.0"] > 0.5


@pytest.mark.parametrize("separate", [False, True], ids=["shared", "separate"])
def test_an_imported_model_equals_transformers(separate: bool, tmp_path: Path) -> None:
    transformers = library()
    folder = write_folder(tmp_path / "marian", separate=separate, d_model=32)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.MarianConfig.from_pretrained(folder)
    config.dropout = 0.0
    model = transformers.MarianMTModel(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for step in range(60):  # enough that it says something
        sources, targets = zip(*PAIRS[step % 9 :: 9], strict=True)
        batch = tokenizer(list(sources), text_target=list(targets), return_tensors="pt", padding=True)
        batch["labels"][batch["labels"] == config.pad_token_id] = -100
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    saved = tmp_path / "saved"
    model.eval().generation_config = transformers.GenerationConfig.from_pretrained(folder)
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    import_marian(saved, tmp_path / "run")
    check(compare(model, tokenizer, tmp_path / "run", LINES))


@pytest.mark.parametrize("joint", [True, False])
def test_an_exported_run_equals_transformers(joint: bool, tmp_path: Path) -> None:
    transformers = library()
    lengths = {"search.max_length_factor": 0, "search.max_length_extra": 30}  # the same for both
    run = trained(
        tmp_path, **{"train.max_steps": 60, "text.joint": joint, "model.activation": "gelu", **lengths}
    )
    export_marian(run, tmp_path / "marian")
    model = transformers.MarianMTModel.from_pretrained(tmp_path / "marian").eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "marian")
    check(compare(model, tokenizer, run, PLAIN))


def test_the_code_of_the_readme_translates_as_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library()
    run = trained(tmp_path, **{"train.max_steps": 60})
    export_marian(run, tmp_path / "marian")
    text = (tmp_path / "marian/README.md").read_text(encoding="utf-8")
    example, code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    lines = [*PLAIN, f"  {PLAIN[0]}   ", unicodedata.normalize("NFD", PLAIN[1])]
    monkeypatch.chdir(tmp_path / "marian")
    variables: dict[str, Any] = {}
    exec(example, variables)
    variables["lines"] = lines
    exec(code, variables)
    ours = [best[0] for best in load(run, device="cpu").translate(lines)]
    assert any(one.finished for one in ours)
    for output, one in zip(variables["outputs"], ours, strict=True):
        assert output == one.text or not one.finished
