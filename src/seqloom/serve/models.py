"""The models of a server: each in its own process, with a scheduler in front of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair
from seqloom.serve.config import ServeConfig
from seqloom.serve.errors import ApiError
from seqloom.serve.jobs import DecodingTask, Item, ModelInfo, ModelSpec, Output
from seqloom.serve.languages import named_pair, served_code, served_pair
from seqloom.serve.metrics import Metrics
from seqloom.serve.model_process import ModelProcess
from seqloom.serve.scheduler import Scheduler, SchedulerLimits
from seqloom.text.pair import TokenizerPair
from seqloom.types import UNK

_FOLLOW_SECONDS = 2.0  # between looks at the checkpoints of a run

OnTranslated = Callable[[DecodingTask, Sequence[Item], Sequence[Output]], None]
NewProcess = Callable[[ModelSpec, Callable[[], None]], ModelProcess]

log = logging.getLogger(__name__)


class Served:
    """A model with its process, scheduler, tokenizers and languages."""

    def __init__(
        self, spec: ModelSpec, config: ServeConfig, metrics: Metrics, new_process: NewProcess = ModelProcess
    ) -> None:
        self.spec, self._process_of = spec, new_process
        self.metrics = metrics.add_model(spec.name, lambda: self.scheduler.depth)
        self.process = self._new_process()
        limits = SchedulerLimits(queue=config.limits.queue)
        self.scheduler = Scheduler(self.process, limits, self.metrics)
        self.languages = named_pair(spec.name)  # in the model's name, or recorded in its run
        self.tokenizers: TokenizerPair | None = None
        self.loaded: list[Path] = []  # checkpoints that the process has loaded
        self.on_translated: OnTranslated | None = None

    def _new_process(self) -> ModelProcess:
        return self._process_of(self.spec, self.metrics.restarted)

    @property
    def name(self) -> str:
        """Name of the model in requests."""
        return self.spec.name

    @property
    def info(self) -> ModelInfo:
        """Description of the model, available once it was started."""
        return self.process.info

    @property
    def is_ready(self) -> bool:
        """Whether the model accepts requests."""
        return self.tokenizers is not None and self.process.is_ready

    def best_checkpoints(self) -> list[Path]:
        """Return the folder of the best checkpoint of each run."""
        return [(Path(folder) / "checkpoints" / "best").resolve() for folder in self.spec.folders]

    async def start(self) -> None:
        """Load and warm the model; raise SeqloomError if that fails."""
        self.loaded = self.best_checkpoints()
        info = await self.process.start()
        if self.languages is None and info.languages:
            self.languages = served_pair(LanguagePair(*info.languages))
        self.tokenizers = await asyncio.to_thread(TokenizerPair.load, info.tokenizers)
        self.scheduler.start()
        log.info(
            "model is ready", extra={"model": self.name, "engine": info.engine, "checkpoint": info.checkpoint}
        )

    async def stop(self) -> None:
        """Stop the scheduler and the process."""
        await self.scheduler.stop()
        await self.process.stop()

    async def replace(self) -> None:
        """Load the run again in a new process, and use it once it is warm; no request is lost."""
        new, self.loaded = self._new_process(), self.best_checkpoints()
        try:
            await new.start()
        except SeqloomError as error:
            log.error("new checkpoint cannot be loaded", extra={"model": self.name, "reason": error.message})
            return
        old, self.process = self.process, new
        await self.scheduler.use(new)
        await old.stop()
        log.info("checkpoint is served", extra={"model": self.name, "checkpoint": new.info.checkpoint})

    def tokens(self, text: str) -> int:
        """Return the number of source tokens of a text."""
        assert self.tokenizers is not None
        tokenizer = self.tokenizers.target if self.info.kind == "generate" else self.tokenizers.source
        return len(tokenizer.encode(text))

    def target_tokens(self, text: str) -> int:
        """Return the number of target tokens of a text."""
        assert self.tokenizers is not None
        return len(self.tokenizers.target.encode(text))

    def can_generate(self, text: str) -> bool:
        """Return whether the target vocabulary can express a text."""
        assert self.tokenizers is not None
        target = self.tokenizers.target
        ids = target.encode(text)
        return UNK not in ids and target.decode(ids) == text


class Models:
    """All models of a server."""

    def __init__(
        self,
        config: ServeConfig,
        specs: Sequence[ModelSpec],
        metrics: Metrics,
        new_process: NewProcess = ModelProcess,
    ) -> None:
        self.all = {spec.name: Served(spec, config, metrics, new_process) for spec in specs}
        self._follow = config.follow
        self._followers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start all models at once; raise SeqloomError if one of them cannot be loaded."""
        await asyncio.gather(*(model.start() for model in self.all.values()))
        if self._follow:
            self._followers = [asyncio.create_task(follow(model)) for model in self.all.values()]

    async def stop(self) -> None:
        """Stop all models."""
        for task in self._followers:
            task.cancel()
        await asyncio.gather(
            *self._followers, *(one.stop() for one in self.all.values()), return_exceptions=True
        )

    @property
    def waiting_for(self) -> list[str]:
        """Names of the models that are not ready."""
        return [model.name for model in self.all.values() if not model.is_ready]

    @property
    def translators(self) -> list[Served]:
        """Models with a source and a target language that are ready, in the order of their names."""
        found = [one for one in self.all.values() if one.languages and one.tokenizers is not None]
        return [one for one in found if one.info.kind == "translate"]

    def named(self, name: str) -> Served:
        """Return a model by its name."""
        model = self.all.get(name)
        if model is None:
            raise ApiError(404, f"There is no model {name[:100]!r}.", "model_not_found", "model")
        return self._ready(model)

    def of_pair(self, source: str, target: str) -> Served:
        """Return the model of a language pair."""
        pair = LanguagePair(served_code(source), served_code(target))
        for model in self.translators:
            if model.languages == pair:
                return self._ready(model)
        is_source_known = pair.source in self.targets
        raise self.unsupported(target, "target") if is_source_known else self.unsupported(source, "source")

    def unsupported(self, code: str, param: str) -> ApiError:
        """Return the error for a language without a model."""
        if self.waiting_for:
            return ApiError(503, "The models are being loaded.", "loading", retry_after=5.0)
        return ApiError(400, f"{code[:50]} is not supported", "unsupported_language", param)

    def only(self) -> Served:
        """Return the model if there is only one."""
        if len(self.all) > 1:
            raise ApiError(400, "Several models are served: name one of them.", "missing_model", "model")
        return self._ready(next(iter(self.all.values())))

    def _ready(self, model: Served) -> Served:
        if not model.is_ready:
            state = "restarts" if model.tokenizers is not None else "is being loaded"
            raise ApiError(503, f"The model {model.name} {state}.", "worker", retry_after=5.0)
        return model

    @property
    def targets(self) -> dict[str, list[str]]:
        """Target languages of each source language."""
        found: dict[str, list[str]] = {}
        for model in self.translators:
            assert model.languages is not None
            found.setdefault(model.languages.source, []).append(model.languages.target)
        return {code: sorted(found[code]) for code in sorted(found)}


async def follow(model: Served, seconds: float = _FOLLOW_SECONDS) -> None:
    """Replace a model whenever the best checkpoint of its run changes."""
    while True:
        await asyncio.sleep(seconds)
        now = model.best_checkpoints()
        if now != model.loaded and all(place.is_dir() for place in now):
            await model.replace()
