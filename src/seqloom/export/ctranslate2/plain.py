"""Code that translates with an exported folder using only SentencePiece and CTranslate2, for its README."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seqloom.decode.config import SearchConfig
from seqloom.errors import SeqloomError
from seqloom.export.ctranslate2.translator import CTranslate2Translator, depends_on_stop, length_penalty
from seqloom.export.plain import (
    changed_tags,
    comparable,
    denormalized,
    imports,
    normalized,
    readme,
    reserved_text,
    run_plain,
)
from seqloom.export.verify import Agreement
from seqloom.text.marian import MarianTokenizer
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import BOS, EOS, PAD, UNK

_CODE = """\
source = sentencepiece.SentencePieceProcessor(model_file=f"{{folder}}/tokenizer/{source}.model")
target = sentencepiece.SentencePieceProcessor(model_file=f"{{folder}}/tokenizer/{target}.model")
translator = ctranslate2.Translator(folder)

{encoding}
results = translator.translate_batch(
    pieces,
    max_batch_size=64,
    beam_size={search.beam},
    length_penalty={penalty},
    end_token={ends},
    return_end_token=True,
    max_input_length=0,
    min_decoding_length=0,
    max_decoding_length={longest},
)
outputs = [{output} for result in results]
"""
_LENGTH_NOTE = (
    "The maximum output length is that of the longest line in the batch, and PAD or BOS ends an output."
)
_MARIAN_CODES = """\
codes = [line[: line.find("<<") + 2] if line.startswith(">>") else "" for line in lines]
texts = [line[len(code) :] for code, line in zip(codes, lines)]
pieces = [[code] * bool(code) + source.encode(text, out_type=str) for code, text in zip(codes, texts)]"""


def plain_code(tokenizers: TokenizerPair, search: SearchConfig, positions: int | None) -> str:
    """Return Python code that translates `lines` with the model in `folder`."""
    joint = tokenizers.reader is tokenizers.target
    names = tokenizers.target.names
    code = _CODE.format(
        source="joint" if joint else "source",
        target="joint" if joint else "target",
        encoding=_encoding(tokenizers.source),
        search=search,
        penalty=length_penalty(search),
        ends=[names[EOS], names[PAD], names[BOS]],
        longest=_longest(search, positions),
        output=denormalized(tokenizers.target, "target.decode(result.hypotheses[0])"),
    )
    return imports(code, "import ctranslate2", "import sentencepiece")


def plain_notes(tokenizers: TokenizerPair, search: SearchConfig) -> list[str]:
    """Return notes on the options of the run that plain CTranslate2 does not follow."""
    notes = changed_tags(tokenizers.source)
    if depends_on_stop(search):
        notes.append(
            f"CTranslate2 stops when `beam_size` outputs are complete; it ignores search.stop={search.stop}."
        )
    return notes


def plain_readme(tokenizers: TokenizerPair, search: SearchConfig, code: str) -> str:
    """Return the README of the exported folder."""
    notes = [*reserved_text(tokenizers.source), _LENGTH_NOTE, *plain_notes(tokenizers, search)]
    return readme(
        "Translation model for CTranslate2",
        code,
        notes,
        install="ctranslate2 sentencepiece",
        checked="compared the outputs of this code with its own. `seqloom translate` also accepts this folder",
    )


def verify_plain(code: str, folder: Path, translator: CTranslate2Translator, lines: list[str]) -> Agreement:
    """Compare the outputs of the README's code with those of CTranslate2Translator for the same folder."""
    texts = comparable(translator.tokenizers.source, lines)
    ours = translator.translate(texts, nbest=1)
    both = [(line, best) for line, (best, *_) in zip(texts, ours, strict=True) if best.finished]
    kept = [line for line, _ in both]
    plain = run_plain(code, folder, kept)
    _check_pieces(translator.tokenizers.source, kept, plain.pieces)
    different = [
        {"source": line, "ours": best.text, "theirs": output}
        for (line, best), output in zip(both, plain.outputs, strict=True)
        if best.text != output
    ]
    return Agreement(len(both), len(both) - len(different), 0.0, next(iter(different), None))


def _check_pieces(tokenizer: Tokenizer, lines: Sequence[str], encoded: Sequence[Sequence[str]]) -> None:
    """Raise an error if plain SentencePiece encodes a line differently."""
    ids = {name: id for id, name in enumerate(tokenizer.names)}
    for line, pieces in zip(lines, encoded, strict=True):
        if tokenizer.encode(line) != [ids.get(piece, UNK) for piece in pieces]:
            raise SeqloomError(
                f"Plain SentencePiece encodes the line {line!r} differently. Nothing was written.",
                "translate with --engine torch, and report this bug",
            )


def _encoding(tokenizer: Tokenizer) -> str:
    """Return the code that splits `lines` into `pieces`."""
    if isinstance(tokenizer, MarianTokenizer) and any(name.startswith(">>") for name in tokenizer.names):
        return _MARIAN_CODES
    if (line := normalized(tokenizer)) == "line":
        return "pieces = source.encode(lines, out_type=str)"
    return f"texts = [{line} for line in lines]\npieces = source.encode(texts, out_type=str)"


def _longest(search: SearchConfig, positions: int | None) -> str:
    """Return the expression for the maximum length of an output, including EOS."""
    tokens = f"int({search.max_length_factor} * (max(map(len, pieces), default=0) + 1)) + "
    limits = [f"{tokens if search.max_length_factor else ''}{search.max_length_extra}"]
    limits += [str(limit) for limit in (search.longest, positions) if limit is not None]
    return limits[0] if len(limits) == 1 else f"min({', '.join(limits)})"
