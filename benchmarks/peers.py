"""Other toolkits, each in a virtual environment of its own and with a model as near to seqloom's as it allows.

A further peer is an `Environment`, a driver that records its updates, and a function that returns a
`Measurement`, named among the contestants of train.py.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from environment import Environment
from measure import Measurement, measure
from workload import LSTM, PIECES, VOCABULARY, Transformer, Workload

_HERE = Path(__file__).resolve().parent
_NEVER = 10**9  # updates between two validations or checkpoints

OPENNMT = Environment(
    name="opennmt",
    package="OpenNMT-py",
    version="3.5.1",
    requirements=(
        *(
            "configargparse",
            "ctranslate2",
            "tensorboard",
            "flask",
            "waitress",
            "pyonmttok",
            "pyyaml",
            "sacrebleu",
        ),
        *("rapidfuzz", "pyahocorasick", "six", "sentencepiece", "spacy"),
    ),
    stubs=("fasttext",),
)

HUGGINGFACE = Environment(
    name="huggingface",
    package="transformers",
    version="5.22.2",
    requirements=(
        *("huggingface-hub>=1.31,<3", "numpy", "packaging", "pyyaml", "regex", "safetensors", "tqdm", "typer"),
        *("accelerate", "tokenizers>=0.23.1,<0.24"),
    ),
)

_JOEYNMT = Environment(
    name="joeynmt",
    package="joeynmt",
    version="2.3.0",
    requirements=(
        *("importlib_metadata", "matplotlib", "numpy", "packaging", "pyyaml", "sacrebleu", "six"),
        *("sentencepiece==0.2.0", "subword-nmt", "tensorboard", "tqdm"),
    ),
)


def opennmt(model: Transformer, workload: Workload, environments: Path, folder: Path) -> Measurement:
    """OpenNMT-py's Transformer."""
    config = _opennmt_config(model, workload, folder)
    return _train(OPENNMT, "-config", config, workload, environments, folder, name="OpenNMT-py")


def huggingface(model: Transformer, workload: Workload, environments: Path, folder: Path) -> Measurement:
    """Hugging Face's Marian model and its Seq2SeqTrainer."""
    config = _huggingface_config(model, workload, folder)
    return _train(HUGGINGFACE, "--config", config, workload, environments, folder, name="Hugging Face")


def joeynmt(
    model: LSTM | Transformer, workload: Workload, environments: Path, folder: Path, *, by_length: bool = False
) -> Measurement:
    """Joey NMT's model of that kind; its batches are of random sentences, or `by_length` of like lengths.

    It has no batches of like lengths. But it makes them one after the other from the file when it does not
    shuffle, so a file in the right order shows what its model does without so much padding.
    """
    lengths = workload.corpus.lengths
    order = like_lengths(lengths, workload.batch_tokens) if by_length else range(len(lengths))
    for language in ("en", "de"):
        lines = Path(workload.corpus.file(f"train.{language}{PIECES}")).read_text(encoding="utf-8").split("\n")
        _write_lines(folder / f"train.{language}", [lines[i] for i in order])
        _write_lines(folder / f"dev.{language}", lines[:1])  # it asks for one, but never uses it here
    config = _joeynmt_config(model, workload, folder, shuffle=not by_length)
    name = "Joey NMT (sorted)" if by_length else "Joey NMT"
    return _train(_JOEYNMT, "train", config, workload, environments, folder, name=name)


def like_lengths(lengths: Sequence[tuple[int, int]], batch_tokens: int) -> list[int]:
    """An order of the pairs in which Joey NMT's batches have like lengths and follow each other at random.

    Its batch is full as soon as rows × the longest side reach the budget; the last one, not full, stays last,
    or the ones behind it would begin elsewhere.
    """
    batches: list[list[int]] = [[]]
    widest = 0
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i][::-1]):  # by target, then by source
        batches[-1].append(i)
        widest = max(widest, *lengths[i])
        if widest * len(batches[-1]) >= batch_tokens:
            batches.append([])
            widest = 0
    rest = batches.pop()
    random.Random(1).shuffle(batches)
    return [i for batch in (*batches, rest) for i in batch]


def _train(
    environment: Environment,
    option: str,  # what its command line has before the configuration
    config: dict[str, Any],
    workload: Workload,
    environments: Path,
    folder: Path,
    *,
    name: str,
) -> Measurement:
    """One run of a peer by its driver, which stands beside this file."""
    python = environment.python(environments)
    file, metrics = folder / "config.yaml", folder / "metrics.jsonl"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    driver = str(_HERE / f"{environment.name}_train.py")
    return measure(
        [python, driver, str(metrics), str(workload.seconds), option, str(file)],
        metrics,
        workload,
        name=name,
        version=environment.version,
        log=folder / "output.log",
    )


def _write_lines(file: Path, lines: Sequence[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _opennmt_config(model: Transformer, workload: Workload, folder: Path) -> dict[str, Any]:
    file = workload.corpus.file
    return {
        "data": {
            "train": {
                "path_src": file(f"train.en{PIECES}"),
                "path_tgt": file(f"train.de{PIECES}"),
                "transforms": [],
            }
        },
        "src_vocab": file(VOCABULARY),
        "tgt_vocab": file(VOCABULARY),
        "share_vocab": True,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "layers": model.layers,
        "hidden_size": model.width,
        "word_vec_size": model.width,
        "heads": model.heads,
        "transformer_ff": model.ffn,
        "add_qkvbias": True,  # as in seqloom
        "dropout": [model.dropout],
        "attention_dropout": [0.0],  # as in seqloom; dropping attention weights would cost it time
        "label_smoothing": workload.label_smoothing,
        "param_init": 0.0,
        "param_init_glorot": True,
        "optim": "adam",
        "adam_beta2": 0.998,
        "decay_method": "noam",
        "learning_rate": 2.0,
        "warmup_steps": 4000,
        "max_grad_norm": 1.0,
        "normalization": "tokens",
        "batch_type": "tokens",
        "batch_size": workload.batch_tokens,
        # One epoch a bucket. The default of 262,144 sentences pads less (4 % of the target, not 12 %), but
        # its two workers then keep both cores busy for minutes, and hardly an update is made meanwhile.
        "bucket_size": 29_000,
        "model_dtype": "fp32",
        "train_steps": _NEVER,
        "valid_steps": _NEVER,
        "save_checkpoint_steps": _NEVER,
        "save_model": str(folder / "model"),
        "report_every": 1,
        "seed": 1,
    }


def _huggingface_config(model: Transformer, workload: Workload, folder: Path) -> dict[str, Any]:
    corpus = workload.corpus
    size = corpus.vocabulary_size  # of which four are our specials; its two take their place
    mean = corpus.targets / len(corpus.lengths)
    return {
        "data": {
            "source": corpus.file(f"train.en{PIECES}"),
            "target": corpus.file(f"train.de{PIECES}"),
            "vocabulary": corpus.file(VOCABULARY),
        },
        "model": {
            "vocab_size": size,
            "pad_token_id": size - 1,
            "decoder_start_token_id": size - 1,
            "eos_token_id": size - 2,
            "forced_eos_token_id": size - 2,
            "d_model": model.width,
            "encoder_layers": model.layers,
            "decoder_layers": model.layers,
            "encoder_attention_heads": model.heads,
            "decoder_attention_heads": model.heads,
            "encoder_ffn_dim": model.ffn,
            "decoder_ffn_dim": model.ffn,
            "activation_function": "relu",
            "dropout": model.dropout,
            "attention_dropout": 0.0,
            "scale_embedding": True,
            "max_position_embeddings": 512,
        },
        "training": {
            "output_dir": str(folder / "model"),
            # It knows no budget of tokens: as many sentences as have so many tokens on average.
            "per_device_train_batch_size": round(workload.batch_tokens / mean),
            "train_sampling_strategy": "group_by_length",
            "label_smoothing_factor": workload.label_smoothing,
            "learning_rate": 1e-3,
            "lr_scheduler_type": "inverse_sqrt",
            "warmup_steps": 400,
            "max_grad_norm": 1.0,
            "max_steps": _NEVER,
            "save_strategy": "no",
            "eval_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
            "logging_steps": _NEVER,
            "use_cpu": True,
            "remove_unused_columns": False,
            "seed": 1,
        },
    }


def _joeynmt_config(
    model: LSTM | Transformer, workload: Workload, folder: Path, *, shuffle: bool
) -> dict[str, Any]:
    side = {"level": "word", "voc_file": workload.corpus.file(VOCABULARY)}  # the pieces are its words
    return {
        "name": "benchmark",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": 1,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "dataset_type": "plain",
            "src": {**side, "lang": "en"},
            "trg": {**side, "lang": "de"},
        },
        "model": {
            "tied_embeddings": True,  # as in seqloom: one matrix for both sides and for the output
            "tied_softmax": True,
            **_joeynmt_stacks(model),
        },
        "training": {
            "optimizer": "adam",
            "scheduling": "warmupinversesquareroot",
            "learning_rate": 0.001,
            "learning_rate_warmup": 400,
            "clip_grad_norm": 1.0,
            "label_smoothing": workload.label_smoothing,
            "normalization": "tokens",
            "batch_type": "token",
            "batch_size": workload.batch_tokens,
            "shuffle": shuffle,
            "epochs": _NEVER,
            "logging_freq": 1,
            "validation_freq": _NEVER,
        },
        "testing": {},
    }


def _joeynmt_stacks(model: LSTM | Transformer) -> dict[str, Any]:
    """Its encoder and decoder of that size."""
    both: dict[str, Any] = {
        "num_layers": model.layers,
        "dropout": model.dropout,
        "embeddings": {"embedding_dim": model.width, "dropout": model.dropout},
    }
    if isinstance(model, Transformer):
        own = {
            "type": "transformer",
            "hidden_size": model.width,
            "ff_size": model.ffn,
            "num_heads": model.heads,
        }
        both |= own
        both["embeddings"]["scale"] = True
        return {"encoder": both, "decoder": both}
    both |= {"type": "recurrent", "rnn_type": "lstm"}
    return {
        "encoder": {**both, "bidirectional": True, "hidden_size": model.width // 2},  # per direction
        "decoder": {
            **both,
            "hidden_size": model.width,
            "hidden_dropout": model.dropout,
            "init_hidden": "bridge",
            "attention": "luong",
            "input_feeding": False,  # as in seqloom; its decoder goes step by step all the same
        },
    }
