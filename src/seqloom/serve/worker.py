"""Worker process: loads one model, then decodes batches until its standard input ends.

    python -m seqloom.serve.worker '{"name": "en-de", "folders": ["runs/en-de"]}'

It reads frames (see `frames`) with a batch or a cancellation, and writes frames: first a description of the
model or the reason why it cannot be loaded, then the outputs of each batch and, for a streaming item, the
output after each step.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from seqloom.decode.config import SearchConfig
from seqloom.decode.generation import Generator
from seqloom.decode.observer import TokensSoFar, observe_steps
from seqloom.decode.scoring import ForcedScorer, MaskedScorer
from seqloom.decode.select import load_translator
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.decode.translator import Translator
from seqloom.errors import SeqloomError
from seqloom.export.ctranslate2.export import is_export
from seqloom.export.ctranslate2.translator import CTranslate2Translator
from seqloom.registry import import_file
from seqloom.run.directory import Run
from seqloom.run.load import load_generator, load_scorer, use_of
from seqloom.serve import frames
from seqloom.serve.jobs import Cancelled, DecodingTask, Item, ModelInfo, ModelSpec, Output
from seqloom.serve.viewed_model import ViewedModel
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import Hypothesis, Request

_WARM_ITEMS = 4
_LONGEST = 256  # tokens of a segment if the configuration allows more


class ServedModel:
    """The model of a specification, with every engine that its requests need."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec, self._run = spec, Run.open(spec.folders[0])
        self._config = self._run.config()
        self._use = use_of(self._config)
        _check_can_serve(spec, self._use, self._config.text.kinds[0], self._config.model.reads_trees)
        self._default = None if self._use == "generate" else self._load(spec.engine)

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self._tokenizers.target

    @cached_property
    def _tokenizers(self) -> TokenizerPair:
        return self._run.tokenizers()

    def _load(self, engine: str) -> Translator:
        first, *others = self.spec.folders
        return load_translator(
            first,
            engine,
            ensemble=others,
            checkpoint=self.spec.checkpoint,
            device=self.spec.device,
            threads=self.spec.threads,
            scores=False,
        )

    @cached_property
    def _torch(self) -> Translator:
        """The translator that supports everything; loaded when it is needed first."""
        return self._load("torch")

    @cached_property
    def _generator(self) -> Generator:
        first, *others = self.spec.folders
        return load_generator(first, ensemble=others, checkpoint=self.spec.checkpoint, device=self.spec.device)

    @cached_property
    def _scorer(self) -> ForcedScorer | MaskedScorer:
        first, *others = self.spec.folders
        return load_scorer(first, ensemble=others, checkpoint=self.spec.checkpoint, device=self.spec.device)

    def info(self) -> ModelInfo:
        """Return the description of the model, after a first batch that also measures its speed."""
        beam = self._config.search.beam if self._default is None else self._default.search.beam
        items, task = [Item("a b c d")] * _WARM_ITEMS, DecodingTask()
        if self._default is None:
            task = DecodingTask(kind="generate", beam=1, max_length=8)
        for _ in range(2):  # the first batch loads and compiles
            started = time.perf_counter()
            outputs = self.run(task, items)
            seconds = time.perf_counter() - started
        if faults := [one for one in outputs if one.is_internal]:
            raise SeqloomError(f"The model {self.spec.name} cannot decode: {faults[0].error}")
        weights = None if is_export(self._run.folder) else self._run.weights(self.spec.checkpoint)
        file = self._run.config_file if weights is None else weights
        return ModelInfo(
            kind="generate" if self._default is None else "translate",
            architecture=self._config.model.name,
            engine=outputs[0].engine,
            checkpoint="export" if weights is None else weights.resolve().parent.name,
            created=int(file.stat().st_mtime),
            languages=tuple(self._config.data.languages or ()),
            capabilities=tuple(sorted(self._capabilities())),
            beam=beam,
            longest=min(self._config.data.max_length, _LONGEST),
            tokenizers=str(self._run.tokenizer_folder.resolve()),
            seconds_per_token=seconds / sum(5 * (task.beam or beam) for _ in items),
        )

    def _capabilities(self) -> frozenset[str]:
        if self._default is None:
            return frozenset({"nbest", "sampling", "token_scores"})
        if not isinstance(self._default, CTranslate2Translator):
            return frozenset(self._default.capabilities)
        return TorchTranslator.CAPABILITIES if self._has_torch else CTranslate2Translator.CAPABILITIES

    @property
    def _has_torch(self) -> bool:
        """Whether requests that CTranslate2 cannot do may use torch."""
        return self.spec.engine != "ctranslate2" and not is_export(Path(self.spec.folders[0]))

    def run(self, task: DecodingTask, items: Sequence[Item]) -> list[Output]:
        """Return the outputs. If the batch fails, its items are decoded one by one: only faulty ones fail."""
        try:
            return self._decode(task, items)
        except Cancelled:
            raise
        except Exception as error:
            if len(items) > 1:
                return [self.run(task, [item])[0] for item in items]
            if isinstance(error, SeqloomError):
                return [Output(error=error.message)]
            traceback.print_exc()
            return [Output(error=f"{type(error).__name__} while decoding.", is_internal=True)]

    def _decode(self, task: DecodingTask, items: Sequence[Item]) -> list[Output]:
        match task.kind:
            case "translate":
                return self._translate(task, items)
            case "generate":
                return self._generate(task, items)
            case "score":
                return self._score(items)
            case "view":
                raise SeqloomError("This worker translates; it does not show views.", "use seqloom studio")

    def _translate(self, task: DecodingTask, items: Sequence[Item]) -> list[Output]:
        requests = [Request(one.source, one.prefix, one.required, key=one.key) for one in items]
        translator = self._translator(task, requests)
        if task.sampling is not None:
            found = translator.sample(requests, task.sampling)
        else:
            found = translator.translate(requests, alignment=task.alignment)
        return [Output(tuple(many), translator.engine) for many in found]

    def _translator(self, task: DecodingTask, requests: Sequence[Request]) -> Translator:
        """Return the fastest translator whose outputs are those of torch, with the options of the task."""
        assert self._default is not None
        search = _search_options(task, self._default.search)
        if not isinstance(self._default, CTranslate2Translator):
            return self._default.with_search(search)
        fast = self._default.with_scores(task.scores).with_search(search)
        needs_torch = (
            task.alignment
            or task.stream
            or task.sampling is not None
            or any(one.prefix or one.required for one in requests)
            or bool(fast.unsupported(fast.search))
        )
        return self._torch.with_search(search) if needs_torch and self._has_torch else fast

    def _generate(self, task: DecodingTask, items: Sequence[Item]) -> list[Output]:
        prompts, limit = [one.source for one in items], task.max_length
        if task.sampling is not None:
            found = self._generator.sample(prompts, task.sampling, max_length=limit)
        else:
            found = self._generator.beam(prompts, task.beam, nbest=task.nbest, max_length=limit)
        return [Output(tuple(many), "torch") for many in found]

    def _score(self, items: Sequence[Item]) -> list[Output]:
        scores = self._scorer.score([(one.source, one.target or "") for one in items])
        return [
            Output(
                (Hypothesis(one.target or "", score.mean, score.log_prob, score.tokens, score.log_probs),),
                "torch",
            )
            for one, score in zip(items, scores, strict=True)
        ]

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of an output."""
        return len(self.target_tokenizer.encode(text))

    def text_so_far(self, ids: list[int]) -> tuple[str, list[str]]:
        """Return the text and the tokens of an unfinished output."""
        return self.target_tokenizer.decode(ids), list(self.target_tokenizer.pieces(ids))


def _check_can_serve(spec: ModelSpec, use: str, source_kind: str, reads_trees: bool) -> None:
    """Raise if requests cannot hold what the model reads."""
    folder = spec.folders[0]
    if use == "fill":
        raise SeqloomError(f"{folder} fills gaps, which the server does not offer.", "use seqloom fill")
    if source_kind == "frames":  # a source would be the path of a file on the server
        raise SeqloomError(f"The sources of {folder} are feature files, not text.", "use seqloom translate")
    if reads_trees:
        raise SeqloomError(f"{folder} reads dependency trees, not plain text.", "use seqloom translate")


def _search_options(task: DecodingTask, search: SearchConfig) -> dict[str, Any]:
    """Return the search options of a task that differ from those of the run."""
    options: dict[str, Any] = {"nbest": task.nbest}
    if task.beam is not None:
        options["beam"] = task.beam
    if task.forbid:
        options["forbid"] = (*search.forbid, *task.forbid)
    if task.max_length is not None:
        options["longest"] = task.max_length
    return options


class WorkerModel(Protocol):
    """What a worker needs of a model."""

    def info(self) -> ModelInfo: ...

    def run(self, task: DecodingTask, items: Sequence[Item]) -> list[Output]: ...

    def count_tokens(self, text: str) -> int: ...

    def text_so_far(self, ids: list[int]) -> tuple[str, list[str]]: ...


class Worker:
    """Loop over the messages of the server."""

    def __init__(self, model: WorkerModel, source: BinaryIO, send: Callable[[Mapping[str, Any]], None]) -> None:
        self._model, self._source, self._send = model, source, send
        self._batches: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._cancelled = -1  # number of the last batch that was cancelled

    def run(self) -> None:
        """Decode batches; the process ends when the server closes its end, or no longer exists."""
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            message = self._batches.get()
            started = time.perf_counter()
            task = DecodingTask.model_validate(message["task"])
            items = [Item.from_json(values) for values in message["items"]]
            number: int = message["batch"]
            try:
                with observe_steps(partial(self._step, task, number)):
                    outputs = self._model.run(task, items)
            except Cancelled:
                outputs = [Output(error="cancelled")] * len(items)
            self._send(
                {
                    "batch": number,
                    "outputs": [one.as_json() for one in outputs],
                    "seconds": time.perf_counter() - started,
                    "source_tokens": sum(one.tokens for one in items),
                    "target_tokens": sum(map(self._target_tokens, outputs)),
                }
            )

    def _listen(self) -> None:
        while (message := frames.read(self._source)) is not None:
            if "cancel" in message:
                self._cancelled = message["cancel"]
            else:
                self._batches.put(message)
        os._exit(0)  # also from the middle of a search

    def _step(self, task: DecodingTask, number: int, tokens: TokensSoFar) -> None:
        """Stop a search that nobody waits for, or report its output so far."""
        if self._cancelled == number:
            raise Cancelled
        if task.stream:
            text, pieces = self._model.text_so_far(tokens())
            self._send({"batch": number, "text": text, "tokens": pieces})

    def _target_tokens(self, output: Output) -> int:
        return sum(len(one.tokens) or self._model.count_tokens(one.text) for one in output.hypotheses[:1])


def main() -> None:
    """Load the model of the first argument, report it, and decode batches."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server decides when to stop
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)  # what libraries print must not end up among the frames
        spec = ModelSpec(**json.loads(sys.argv[1]))

        def send(message: Mapping[str, Any]) -> None:
            replies.write(frames.pack(message))
            replies.flush()

        try:
            for file in spec.imports:
                import_file(file)
            model: WorkerModel = ViewedModel(spec) if spec.engine == "views" else ServedModel(spec)
            send({"ready": model.info().model_dump()})
        except SeqloomError as error:
            send({"failed": error.message, "hint": error.hint})
            return
        Worker(model, sys.stdin.buffer, send).run()


if __name__ == "__main__":
    main()
