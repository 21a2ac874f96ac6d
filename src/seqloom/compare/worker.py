"""Process that trains one system of a comparison and translates the test part.

Every system has a process of its own, so that its memory is measured alone and a crash ends nothing else.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path

from torch import nn

from seqloom.compare.folder import ComparisonFolder, Decoding, Failure, System, Training
from seqloom.data.testset import TestSet, read_testset
from seqloom.decode.select import load_translator
from seqloom.decode.translator import Translator, requests_for
from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import evaluate
from seqloom.inspect.doctor import RunHistory, diagnose
from seqloom.locks import locked_after_waiting
from seqloom.log import console
from seqloom.models.base import SequenceModel
from seqloom.progress import counter
from seqloom.registry import architecture, import_file
from seqloom.run.directory import Run
from seqloom.run.load import load_run
from seqloom.run.train import continue_run, create_and_train
from seqloom.training.run_log import peak_memory_mb
from seqloom.training.step import is_out_of_memory

INTERRUPTED = 130
FAILED = 2
_ENGINE = "torch"  # the same for all systems, so that their speeds can be compared


def main() -> None:
    """Train and decode the system that the arguments name; standard input ends when the parent has ended."""
    folder, name, *imports = sys.argv[1:]
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    for file in imports:
        import_file(file)
    with console(force=True):
        sys.exit(run_system(ComparisonFolder(Path(folder)), name))


def _stop_with_parent() -> None:
    """Save and stop when the parent process ends, even if it is killed."""
    while os.read(0, 1):  # not through sys.stdin, whose lock would be held when this process ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def run_system(folder: ComparisonFolder, name: str) -> int:
    """Train and decode a system, as far as it is not done; return an exit code."""
    setup = folder.setup()
    system = next(one for one in setup.systems if one.name == name)
    lock = folder.path / f".{name}.lock"
    with locked_after_waiting(lock, f"The system {name} of {folder.path} is being trained"):
        try:
            if folder.training(system) is None and not _train(folder, system):
                return INTERRUPTED
            if folder.decoding(system) is None:
                folder.write(system, _decode(folder, system, setup.metrics[0]))
        except KeyboardInterrupt:
            return INTERRUPTED
        except Exception as error:  # the other systems of the comparison must not depend on this one
            folder.write(system, failure_of(folder, system, error))
            if not isinstance(error, SeqloomError):
                traceback.print_exc()
            return FAILED
    return 0


def failure_of(folder: ComparisonFolder, system: System, error: Exception) -> Failure:
    """Return the record of an error, with the findings of the doctor."""
    message, hint = f"{type(error).__name__}: {error}", ""
    if isinstance(error, SeqloomError):
        message, hint = error.message, error.hint or ""
    elif is_out_of_memory(error):
        message = "Not enough memory."
    return Failure(message=message, hint=hint, findings=findings(folder.run(system)))


def findings(run: Run) -> list[dict[str, str]]:
    """Return the findings of the doctor about a run that may have no weights, or not exist."""
    try:
        config = run.config()
    except SeqloomError:  # it failed before its folder was complete
        return []
    if architecture(config.model.name).fitted:
        return []
    try:
        found = diagnose(run)
    except SeqloomError:  # no checkpoint: the log alone is diagnosed
        found = diagnose(RunHistory(config.train, run.metrics(), {}, nn.Module()))
    return [one.as_dict() for one in found]


def _train(folder: ComparisonFolder, system: System) -> bool:
    """Train or fit a system and record it; return False if it was interrupted."""
    run = folder.run(system)
    if run.folder.is_dir():
        state = continue_run(run)
    else:
        run.folder.parent.mkdir(exist_ok=True)
        state = create_and_train(folder.config(system), run.folder, tokenizers=folder.tokenizers(system))
    if not state.finished:
        return False
    reports = [entry for entry in run.metrics() if entry["kind"] == "train"]
    speeds = [entry["tokens_per_second"] for entry in reports if entry.get("tokens_per_second")]
    earlier = [entry["memory_mb"] for entry in reports if entry.get("memory_mb")]  # before an interruption
    training = Training(
        seconds=state.seconds,
        steps=state.step,
        target_tokens=state.target_tokens,
        tokens_per_second=statistics.median(speeds) if speeds else None,
        parameters=_parameters(run),
        memory_mb=max([peak_memory_mb(workers=True), *earlier]),
        ended=state.finished,
        findings=findings(run),
    )
    folder.write(system, training)
    return True


def _parameters(run: Run) -> int:
    """Return the number of trained weights, or of the numbers that a fitted model stores."""
    model = load_run(run.folder).model
    tensors = model.parameters() if isinstance(model, SequenceModel) else model.state_dict().values()
    return sum(tensor.numel() for tensor in tensors)


def _decode(folder: ComparisonFolder, system: System, metric: str) -> Decoding:
    """Translate the test part with the search options of the run, as `seqloom evaluate` does."""
    run = folder.run(system)
    config = run.config()
    translator = load_translator(run.folder, _ENGINE, threads=config.train.threads, scores=False)
    test, valid = (read_testset(config.data, [str(folder.part(part))]) for part in ("test", "valid"))
    started = time.monotonic()
    texts = _translations(translator, test, f"{system.name}: translated test lines")
    seconds = time.monotonic() - started
    score = None
    if system.fitted:
        first = _beginning(valid, config.train.validate_lines)
        outputs = _translations(translator, first, f"{system.name}: translated validation lines")
        score = evaluate(outputs, first.references, metric, bootstrap=0)[0].value
    return Decoding(
        texts=texts,
        seconds=seconds,
        engine=translator.engine,
        beam=translator.search.beam,
        valid_score=score,
    )


def _beginning(test: TestSet, lines: int) -> TestSet:
    """Return the first lines of a test set."""
    return TestSet(test.name, test.sources[:lines], test.references[:lines], test.heads[:lines])


def _translations(translator: Translator, test: TestSet, label: str) -> list[str]:
    """Return the best output for each source."""
    requests = requests_for(translator, test.sources, test.heads)
    requests = [replace(request, key=number) for number, request in enumerate(requests, 1)]
    with counter(label, total=len(requests)) as advance:
        return [best[0].text for best in translator.translate(requests, on_progress=advance)]


if __name__ == "__main__":
    main()
