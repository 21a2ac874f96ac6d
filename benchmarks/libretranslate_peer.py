"""LibreTranslate with the weights of a run: a package of Argos Translate with our CTranslate2 model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from seqloom.export.ctranslate2.cache import converted_model
from seqloom.run.directory import Run

_LANGUAGES = {"en": "English", "de": "German"}


def write_packages(run: Path, data: Path) -> None:
    """Write the run as a package for both directions: with one package, LibreTranslate downloads others."""
    opened = Run.open(run)
    model = converted_model(opened, opened.config(), None)
    for source, target in (("en", "de"), ("de", "en")):
        package = data / "argos-translate" / "packages" / f"{source}_{target}"
        package.mkdir(parents=True)
        shutil.copytree(model, package / "model")
        tokenizer = opened.tokenizers().portable().source
        (package / "sentencepiece.model").write_bytes(tokenizer.model)
        metadata = {
            "package_version": "1.0",
            "argos_version": "1.9",
            "from_code": source,
            "from_name": _LANGUAGES[source],
            "to_code": target,
            "to_name": _LANGUAGES[target],
        }
        (package / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")


def installed(python: Path, run: Path, work: Path, beam: int) -> tuple[list[str], dict[str, str]]:
    """Return the command, which lacks the port, and the environment variables of a server with the run."""
    data = work / "libretranslate"
    write_packages(run, data)
    variables = {
        "XDG_DATA_HOME": str(data),
        "XDG_CONFIG_HOME": str(data / "config"),
        "XDG_CACHE_HOME": str(data / "cache"),
        "ARGOS_BEAM_SIZE": str(beam),
        "PYTHONPATH": "",
    }
    return [str(python), str(Path(__file__).with_name("libretranslate_server.py"))], variables
