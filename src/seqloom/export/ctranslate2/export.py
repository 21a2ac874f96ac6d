"""A run as a folder that CTranslate2 loads and `seqloom translate` understands, checked before it appears."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqloom import __version__
from seqloom.decode.scoring import ForcedScorer
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.export.ctranslate2.convert import check_can_hold, library, position_rows, write_model
from seqloom.export.ctranslate2.plain import plain_code, plain_notes, plain_readme, verify_plain
from seqloom.export.ctranslate2.translator import CTranslate2Translator
from seqloom.export.plain import README
from seqloom.export.verify import compare, score_difference, sentences
from seqloom.files import (
    SUMS,
    check_folder,
    read_json,
    sealed_text,
    sha256,
    write_atomically,
    write_json,
    write_sums,
)
from seqloom.models.base import AutoregressiveModel
from seqloom.models.transformer import TransformerSettings
from seqloom.outputs import new_output_folder
from seqloom.run.build import load_model
from seqloom.run.directory import EXPORT_REPORT, Run

TOLERANCE = 1e-3  # of a score; float32 sums in another order differ by about 1e-6 per token
_PLAIN_SHARE = 0.05  # of the sentences that plain CTranslate2 may translate differently


def export_ctranslate2(
    folder: str | Path,
    out: str | Path,
    *,
    quantization: str = "float32",
    checkpoint: str | None = None,
    verify: str | None = None,
) -> dict[str, Any]:
    """Writes the run's model, tokenizers and options to `out`; what came of comparing the answers of both.

    A float32 model that answers otherwise than the run is an error, and nothing is written.
    """
    out, run = Path(out), Run.open(folder)
    config = run.config()
    library()
    check_can_hold(config.model)
    assert isinstance(config.model, TransformerSettings)
    if out.exists():
        raise SeqloomError(f"{out} exists already.", "name a new folder, or remove it first")
    model, tokenizers = load_model(run, checkpoint=checkpoint)
    lines, origin = sentences(config, tokenizers.source, verify)
    report: dict[str, Any] = {
        "to": "ctranslate2",
        "run": run.folder.resolve().name,  # not its path, which is of no use elsewhere
        "quantization": quantization,
        "positions": position_rows(config.model),
        "weights": sha256(run.weights(checkpoint)),
        "seqloom": __version__,
        "notes": plain_notes(tokenizers, config.search),
    }
    with new_output_folder(out) as draft:
        write_model(draft, model, config.model, tokenizers, quantization)
        tokenizers.portable().save(draft / "tokenizer")
        write_atomically(draft / "config.yaml", sealed_text(config.to_yaml()))
        write_json(draft / EXPORT_REPORT, report)
        search = CTranslate2Translator.supported(config.search)
        assert isinstance(model, AutoregressiveModel)  # write_model takes nothing else
        ours = TorchTranslator(model, tokenizers, search)
        theirs = load_exported(draft).with_search(search.model_dump())
        code = plain_code(tokenizers, search, position_rows(config.model))
        plain = verify_plain(code, draft, theirs, lines)
        report["verified"] = {"on": origin, **_verify(ours, theirs, lines), "plain": plain.as_dict()}
        if quantization == "float32":
            _refuse_other_answers(report["verified"])
        write_json(draft / EXPORT_REPORT, report)
        write_sums(draft)  # before the README: that may be edited
        write_atomically(draft / README, plain_readme(tokenizers, config.search, code))
    return report


def is_export(folder: str | Path) -> bool:
    """Return whether the folder is one that `seqloom export --to ctranslate2` wrote."""
    return all((Path(folder) / name).is_file() for name in (EXPORT_REPORT, "model.bin"))


def load_exported(
    folder: str | Path, *, threads: int | None = None, device: str = "cpu", scores: bool = True
) -> CTranslate2Translator:
    """Load the translator of an exported folder."""
    folder, run = Path(folder), Run.open(folder)
    if (folder / SUMS).is_file():  # not yet, while it is verified
        check_folder(folder)
    report = read_json(folder / EXPORT_REPORT)
    return CTranslate2Translator(
        folder,
        run.tokenizers(),
        run.config().search,
        positions=report["positions"],
        threads=threads,
        device=device,
        scores=scores,
        alternative="use the run that the model was exported from"
        + (f", which was called {report['run']}" if "run" in report else ""),
    )


def _verify(ours: TorchTranslator, theirs: CTranslate2Translator, lines: list[str]) -> dict[str, Any]:
    """How the answers of both engines to the lines compare, greedy and by beam, and what both think of ours."""
    beam = max(2, ours.search.beam)
    greedy, best = ours.translate(lines, beam=1, nbest=1), ours.translate(lines, beam=beam, nbest=1)
    pairs = [(line, answers[0].text) for line, answers in zip(lines, best, strict=True)]
    scorer = ForcedScorer(ours.model, ours.tokenizers, ours.search)
    return {
        "answers": {
            "greedy": compare(lines, greedy, theirs.translate(lines, beam=1, nbest=1)).as_dict(),
            f"beam {beam}": compare(lines, best, theirs.translate(lines, beam=beam, nbest=1)).as_dict(),
        },
        "token_score_difference": score_difference(pairs, scorer, theirs),
    }


def _refuse_other_answers(verified: dict[str, Any]) -> None:
    """Raise an error if outputs or scores differ.

    Beams may end at other steps, see ctranslate2_engine. In those of plain CTranslate2, PAD or BOS may take a
    place, which a model that is not yet well trained proposes now and then.
    """
    for program, found, share in (
        ("The exported model", verified["answers"]["greedy"], 0.0),
        ("Plain CTranslate2", verified["plain"], _PLAIN_SHARE),
    ):
        others = found["sentences"] - found["equal"]
        if others > share * found["sentences"]:
            first = found["first_other"]
            raise SeqloomError(
                f"{program} translates {others} of {found['sentences']} sentences differently from the run, "
                f"first {first['source']!r}: nothing is written.",
                "translate with --engine torch, and report this: it should not happen",
            )
    greedy = verified["answers"]["greedy"]
    apart = max(greedy["score_difference"], verified["token_score_difference"])
    if apart > TOLERANCE:
        raise SeqloomError(
            f"The exported model's scores differ from the run's by {apart:.1e}: nothing is written.",
            "translate with --engine torch, and report this: it should not happen",
        )
