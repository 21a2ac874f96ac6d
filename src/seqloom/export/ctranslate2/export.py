"""Export of a run to a folder that CTranslate2 and `seqloom translate` can load, verified first."""

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
    """Write the run's model, tokenizers and options to `out`; return a report that compares both outputs.

    If the outputs of a float32 model differ from those of the run, raise an error and write nothing.
    """
    out, run = Path(out), Run.open(folder)
    config = run.config()
    library()
    check_can_hold(config.model)
    assert isinstance(config.model, TransformerSettings)
    if out.exists():
        raise SeqloomError(f"{out} already exists.", "choose a new folder, or remove it first")
    model, tokenizers = load_model(run, checkpoint=checkpoint)
    lines, origin = sentences(config, tokenizers.source, verify)
    report: dict[str, Any] = {
        "to": "ctranslate2",
        "run": run.folder.resolve().name,  # without its path, which is meaningless on other machines
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
        assert isinstance(model, AutoregressiveModel)  # guaranteed by write_model
        original = TorchTranslator(model, tokenizers, search)
        exported = load_exported(draft).with_search(search.model_dump())
        code = plain_code(tokenizers, search, position_rows(config.model))
        plain = verify_plain(code, draft, exported, lines)
        report["verified"] = {"on": origin, **_verify(original, exported, lines), "plain": plain.as_dict()}
        if quantization == "float32":
            _check_equal_outputs(report["verified"])
        write_json(draft / EXPORT_REPORT, report)
        write_sums(draft)  # before the README, which may be edited
        write_atomically(draft / README, plain_readme(tokenizers, config.search, code))
    return report


def is_export(folder: str | Path) -> bool:
    """Return whether the folder was written by `seqloom export --to ctranslate2`."""
    return all((Path(folder) / name).is_file() for name in (EXPORT_REPORT, "model.bin"))


def load_exported(
    folder: str | Path, *, threads: int | None = None, device: str = "cpu", scores: bool = True
) -> CTranslate2Translator:
    """Load the translator of an exported folder."""
    folder, run = Path(folder), Run.open(folder)
    if (folder / SUMS).is_file():  # missing while the export is verified
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
        + (f" ({report['run']})" if "run" in report else ""),
    )


def _verify(original: TorchTranslator, exported: CTranslate2Translator, lines: list[str]) -> dict[str, Any]:
    """Compare both engines: greedy and beam outputs, and the token scores of the run's beam outputs."""
    beam = max(2, original.search.beam)
    greedy, best = original.translate(lines, beam=1, nbest=1), original.translate(lines, beam=beam, nbest=1)
    pairs = [(line, hypotheses[0].text) for line, hypotheses in zip(lines, best, strict=True)]
    scorer = ForcedScorer(original.model, original.tokenizers, original.search)
    return {
        "answers": {
            "greedy": compare(lines, greedy, exported.translate(lines, beam=1, nbest=1)).as_dict(),
            f"beam {beam}": compare(lines, best, exported.translate(lines, beam=beam, nbest=1)).as_dict(),
        },
        "token_score_difference": score_difference(pairs, scorer, exported),
    }


def _check_equal_outputs(verified: dict[str, Any]) -> None:
    """Raise an error if outputs or scores differ.

    Beam outputs are not checked, because beams may end at different steps (see translator.py). In the beams of
    plain CTranslate2, PAD or BOS may occupy a slot if the model is not well trained.
    """
    for program, result, share in (
        ("The exported model", verified["answers"]["greedy"], 0.0),
        ("Plain CTranslate2", verified["plain"], _PLAIN_SHARE),
    ):
        different = result["sentences"] - result["equal"]
        if different > share * result["sentences"]:
            first = result["first_other"]
            raise SeqloomError(
                f"{program} translates {different} of {result['sentences']} sentences differently from the "
                f"run, first {first['source']!r}. Nothing was written.",
                "translate with --engine torch, and report this bug",
            )
    greedy = verified["answers"]["greedy"]
    difference = max(greedy["score_difference"], verified["token_score_difference"])
    if difference > TOLERANCE:
        raise SeqloomError(
            f"The scores of the exported model differ from those of the run by {difference:.1e}. "
            "Nothing was written.",
            "translate with --engine torch, and report this bug",
        )
