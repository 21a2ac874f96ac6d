"""Training from data files to a run directory: read, split, tokenise, build, train."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqloom.data.corpus import Corpus
from seqloom.data.loader import augmented, collator, feeder, local_collator
from seqloom.data.memory_pairs import Files, file_of
from seqloom.decode.generation import Generator
from seqloom.decode.mask_filling import Filler
from seqloom.decode.translator import Translator
from seqloom.distributed.process_group import ProcessGroup
from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import parse_metrics
from seqloom.files import clean_up_leftovers, new_folder, sealed, sealed_text, write_atomically, write_json
from seqloom.log import console
from seqloom.outputs import check_new_folder, only_writer
from seqloom.progress import duration
from seqloom.registry import Use, architecture
from seqloom.run.advice import advice
from seqloom.run.build import build_model, choose_device, load_model
from seqloom.run.config import Config, option_tree
from seqloom.run.data_settings import adapt_to_data
from seqloom.run.directory import Run
from seqloom.run.extend import change_limits
from seqloom.run.fit import fit_run
from seqloom.run.guards import disk_errors, exclusive_training, stop_on_signals
from seqloom.run.labels import check_labels
from seqloom.run.load import check_search_options, load, load_filler, load_generator, use_of
from seqloom.run.planner.plan import Plan, PlanMode, compose_with_plan, plan_mode
from seqloom.run.task_model import with_task
from seqloom.run.techniques import check_tokenizers, is_augmented
from seqloom.system import busy_elsewhere, keep_freed_memory
from seqloom.tensors import write_tensors
from seqloom.text.pair import TokenizerPair
from seqloom.training.checkpoint import (
    TrainState,
    check_sums,
    load_weights,
    weights_of,
)
from seqloom.training.run_log import Log, NullLog, RunLog
from seqloom.training.trainer import Review, Trainer
from seqloom.training.validation import Validator
from seqloom.training.warm_start import warm_start

logger = logging.getLogger(__name__)

_WARM_START = "warm-start.json"

Pairs = Files | Iterable[object] | None
"""One file, several, pairs in memory, or none."""


def train(
    pairs: Pairs = None,
    *,
    out: str | Path,
    source: str | Path | None = None,
    target: str | Path | None = None,
    valid: Pairs = None,
    task: str | None = None,
    model: str | None = None,
    size: str | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    minutes: float | None = None,
    plan: PlanMode | None = None,
    quiet: bool = False,
) -> Translator | Generator | Filler:
    """Train a new run in `out` on tables of pairs, two aligned files or plain text, and load it.

    `pairs` and `valid` are files, or pairs in memory: (source, target) tuples, dicts or a DataFrame, which are
    kept in a file in the cache, because training reads data more than once.

    Return a Translator for pairs, a Generator (`lm`) or a Filler (`mlm`) for text. `task` is `translate`,
    `tag`, `classify`, `predict`, `continue` or `fill`; `model` then only names the encoder. `settings` holds
    further options by their dotted names, e.g. {"train.max_steps": 1000}. Open options are chosen from the
    data and for a budget of `minutes` (default: 30); with `plan="fixed"`, the default if there is a `config`,
    they are constants. Messages are logged to the `seqloom` logger and, unless `quiet` is set or logging is
    configured, printed on standard error.
    """
    named = any((settings or {}).get(f"data.{side}_column") for side in ("source", "target"))
    values = {
        "data.train": file_of(pairs, keep_names=named),
        "data.source": source,
        "data.target": target,
        "data.valid": file_of(valid, keep_names=named),
        "model.name": model,
        "model.size": size,
        **(settings or {}),
    }
    tree = option_tree(config, values)
    if task:
        tree = with_task(tree, task)
    with console(quiet=quiet):
        composed, chosen = compose_with_plan(tree, plan_mode(plan, config), minutes=minutes)
    create_and_train(composed, Path(out), plan=chosen, quiet=quiet)
    loaders: dict[Use, Callable[..., Translator | Generator | Filler]] = {
        "translate": load,
        "generate": load_generator,
        "fill": load_filler,
    }
    return loaders[use_of(composed)](out, device=composed.train.device)


def create(config: Config, out: str | Path, *, quiet: bool = False) -> Run:
    """Create a run directory that is ready to train; it appears when it is complete."""
    with console(quiet=quiet), _created(config, Path(out)) as run:
        return run


def create_and_train(
    config: Config,
    out: Path,
    *,
    plan: Plan | None = None,
    quiet: bool = False,
    progress: bool | None = None,
    group: ProcessGroup | None = None,
    restarted: bool = False,
    tokenizers: TokenizerPair | None = None,
) -> TrainState:
    """Create a run directory and train it; no other process can use it in between.

    `progress` shows or hides the progress bar (default: shown unless `quiet`). Set `restarted` if the processes
    were restarted because one of them died: they continue in the existing directory. A `plan` is saved with the
    run. Without `tokenizers`, the run uses those of `train.init_from`, or trains its own.
    """
    group = group or ProcessGroup()
    with console(quiet=quiet, is_main=group.is_main), ExitStack() as until_trained:
        if group.is_main and restarted and out.is_dir():
            until_trained.enter_context(exclusive_training(Run.open(out)))
        elif group.is_main:
            with _created(config, out, plan, tokenizers) as run:
                until_trained.enter_context(exclusive_training(run))
        group.barrier()
        return _train(Run.open(out), progress=not quiet if progress is None else progress, group=group)


@contextmanager
def _created(
    config: Config, out: Path, plan: Plan | None = None, tokenizers: TokenizerPair | None = None
) -> Iterator[Run]:
    """Yield a new run directory; no other process can create the same one until the block ends."""
    config = adapt_to_data(config)
    _check_new(out)
    _check_machine(config)
    check_search_options(config)
    with only_writer(out):  # fails before the tokenizers are trained if the folder cannot be created
        _check_new(out)
        with new_folder(out) as draft:
            _prepare(Run(draft), config, tokenizers)
            if plan:
                write_json(Run(draft).plan_file, sealed(plan.as_dict()))
        yield Run(out)


def _check_new(out: Path) -> None:
    """Raise an error unless a run directory can be created there."""
    if Run(out).lock_file.exists():  # if it is being trained, the error names the process
        with exclusive_training(Run(out)):
            pass
    check_new_folder(out, f"choose another --out, or continue training with: seqloom resume {out}")
    if out.name in ("", ".."):
        raise SeqloomError(f"{out} is not a valid name for a new run directory.", "e.g. --out runs/first")


def _prepare(run: Run, config: Config, tokenizers: TokenizerPair | None) -> None:
    """Prepare the data and write all files that a run directory has before training."""
    init_from = config.train.init_from
    prepared = Corpus(config.data, config.text).prepare(tokenizers or _shared_tokenizers(init_from))
    check_tokenizers(config, prepared.tokenizers)
    check_labels(prepared, architecture(config.model.name).task)
    for line in () if _is_fitted(config) else advice(config, prepared):
        logger.warning(f"advice: {line}")
    # A model that cannot be built is an error before anything is written.
    model = None if _is_fitted(config) else build_model(config, prepared.tokenizers)
    warm = warm_start(model, {name: _best_weights(name) for name in init_from}) if init_from and model else None
    for line in warm.summary() if warm else ():
        logger.info(f"start: {line}")
    write_atomically(run.config_file, sealed_text(config.to_yaml()))
    prepared.tokenizers.save(run.tokenizer_folder)
    prepared.report.save(run.folder / "data-report.json")
    write_json(run.data_file, sealed(prepared.record.model_dump()))
    if file := architecture(config.model.name).file_name:
        write_json(run.import_file, sealed({"file": file}))
    if warm and model:
        sums = {run.initial_file.name: write_tensors(run.initial_file, weights_of(model))}
        write_json(run.folder / _WARM_START, sealed({**warm.as_dict(), "sha256": sums}))


def _shared_tokenizers(runs: Sequence[str]) -> TokenizerPair | None:
    """Return the tokenizers of the runs to start from, which the rows of their embeddings depend on."""
    pairs = {run: Run.open(run).tokenizers() for run in runs}
    for run, pair in pairs.items():
        if pair.fingerprint != pairs[runs[0]].fingerprint:
            raise SeqloomError(
                f"{run} and {runs[0]} have different tokenizers, so a model cannot start from both.",
                "train the later run with train.init_from set to the earlier one, which shares its tokenizers",
            )
    return pairs[runs[0]] if runs else None


def _best_weights(run: str) -> dict[str, Tensor]:
    """Return the weights of the best checkpoint of a run."""
    return load_model(Run.open(run))[0].state_dict()


def _check_machine(config: Config) -> torch.device:
    """Return the device to train on; raise if this machine or installation cannot run the configuration."""
    if config.train.metrics:
        parse_metrics(",".join(config.train.metrics))
    device = choose_device(config.train.device)
    if device.type == "cpu" and config.train.precision != "float32":
        raise SeqloomError(
            f"train.precision={config.train.precision} needs an accelerator, but this run is on the CPU.",
            "set train.precision=float32",
        )
    if config.train.tensorboard and find_spec("tensorboard") is None:
        raise SeqloomError(
            "train.tensorboard=true needs the package tensorboard, which is not installed.",
            "pip install tensorboard, or leave the option out",
        )
    return device


def continue_run(
    run: Run,
    *,
    limits: Sequence[str] = (),
    quiet: bool = False,
    group: ProcessGroup | None = None,
    review: Review | None = None,
) -> TrainState:
    """Train a run from its newest checkpoint, or from the beginning if it has none.

    `limits` are new training limits, e.g. ["train.max_steps=1000"]; a finished run continues if it has not
    reached them. In a process group, every process calls this function. `review` may end the training after a
    validation.
    """
    group = group or ProcessGroup()
    with (
        console(quiet=quiet, is_main=group.is_main),
        exclusive_training(run) if group.is_main else nullcontext(),
    ):
        if limits and group.is_main:
            change_limits(run, limits)
        group.barrier()
        return _train(run, progress=not quiet, group=group, review=review)


def _train(run: Run, *, progress: bool, group: ProcessGroup, review: Review | None = None) -> TrainState:
    config = run.config()
    if not config.data.has("train"):
        raise SeqloomError(
            f"{run.folder} was imported, so there is no training to continue.",
            f"seqloom train pairs.tsv --config {run.config_file} --init-from {run.folder} --out DIR",
        )
    keep_freed_memory()
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    device = _check_machine(config)
    if not group.is_main:
        group.barrier()  # the main process may have to rewrite the token stores
    prepared = Corpus(config.data, config.text).reopen(run.data_record(), run.tokenizers())
    if group.is_main:
        group.barrier()
    checkpoints = run.checkpoints(config.train.keep)
    recovery_notes = _recover(run) if group.is_main else []
    group.barrier()
    if _is_fitted(config):
        with disk_errors(run):
            return group.broadcast(
                fit_run(run, config, prepared, progress=progress) if group.is_main else TrainState()
            )
    newest = max(checkpoints.steps(), default=0)
    model = build_model(config, prepared.tokenizers)
    if run.initial_file.exists() and not newest:
        check_sums(run.folder, [run.initial_file.name], record=_WARM_START)
        load_weights(model, run.initial_file)
    model.to(device)
    if group.rank:  # the processes share their weights, but not their dropout masks
        torch.manual_seed(config.train.seed + group.rank)
    in_place = architecture(config.model.name).task.in_place
    make_batch = collator(config.data.noise, prepared.tokenizers, config.train.seed, in_place=in_place)
    make_rows = local_collator(
        augmented(
            make_batch,
            prepared.tokenizers,
            config.train.seed,
            text=config.text,
            longest=config.data.max_length,
            word_dropout=config.train.word_dropout,
        ),
        group,
        random=config.data.noise.kind != "none" or is_augmented(config),
    )
    with (
        disk_errors(run),
        _log(run, config, newest, progress, group) as log,
        stop_on_signals() as stop,
    ):
        for note in recovery_notes:
            logger.info(note)
        if newest == 0:
            unit = "texts" if config.data.is_text else "pairs"
            count = sum(weight.numel() for weight in model.parameters())
            logger.info(
                f"{config.model.name}: {count:,} parameters on {device}, {len(prepared.train):,} {unit}"
            )
        if device.type == "cpu" and group.size == 1:
            _warn_if_busy()
        batches = prepared.batches(batch_tokens=config.train.batch_tokens, seed=config.train.seed)
        # With sharding only the main process holds the full model.
        validation_group = ProcessGroup() if config.train.shard else group
        trainer = Trainer(
            model,
            config.train,
            feed=feeder(batches, make_rows),
            batches_per_epoch=batches.per_epoch if config.train.max_epochs else 0,
            validate=Validator(
                model, config.train, config.search, prepared, make_batch, device, stop, validation_group
            ),
            checkpoints=checkpoints,
            log=log,
            stop=stop,
            device=device,
            group=group,
            review=review,
        )
        state = trainer.run()
        if state.finished:
            logger.info(f"done after {state.step:,} steps, {duration(state.seconds)}: {state.finished}")
        else:
            logger.info(f"stopped at step {state.step:,}; continue with: seqloom resume {run.folder}")
    return state


def _recover(run: Run) -> list[str]:
    """Repair the run directory after a crash; return messages about what was repaired."""
    with disk_errors(run):
        clean_up_leftovers(run.folder)
        run.checkpoints().folder.mkdir(exist_ok=True)
        return run.checkpoints().recover()


def _log(
    run: Run, config: Config, step: int, progress: bool, group: ProcessGroup
) -> AbstractContextManager[Log]:
    """Return the log of the run; only the main process writes it."""
    if not group.is_main:
        return NullLog()
    averaged, tensorboard = run.checkpoints().has_average(), config.train.tensorboard
    return RunLog(run.folder, step=step, averaged=averaged, tensorboard=tensorboard, progress=progress)


def _warn_if_busy() -> None:
    """Log a hint if other programs use the processors: threads that wait for one another are slow then."""
    threads, processors = torch.get_num_threads(), os.cpu_count() or 1
    if threads > 1 and threads + (busy := busy_elsewhere()) > processors + 0.5:
        free = max(1, round(processors - busy))
        logger.info(
            f"other programs use {busy:.1f} of {processors} processors, which slows down {threads} threads: "
            f"train.threads={free} may be faster"
        )


def _is_fitted(config: Config) -> bool:
    return architecture(config.model.name).fitted
