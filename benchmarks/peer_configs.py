"""Configurations of the other toolkits: a model as close to seqloom's as each allows, and its training."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from workload import LSTM, PIECES, VOCABULARY, Recipe, Transformer, Workload

_NEVER = 10**9  # updates between two validations or checkpoints


def opennmt_config(model: Transformer, workload: Workload, folder: Path) -> dict[str, Any]:
    """Return the configuration for `onmt_train -config`."""
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
        "attention_dropout": [0.0],  # as in seqloom; attention dropout would cost time
        "label_smoothing": workload.label_smoothing,
        "param_init": 0.0,
        "param_init_glorot": True,
        "optim": "adam",
        **_noam(model, workload.recipe),
        "max_grad_norm": 1.0,
        "normalization": "tokens",
        "batch_type": "tokens",
        "batch_size": workload.batch_tokens,
        # One epoch per bucket. The default of 262,144 sentences has less padding (4 % of the target, not 12 %),
        # but its two workers keep both cores busy for minutes, in which hardly any update is made.
        "bucket_size": 29_000,
        "model_dtype": "fp32",
        "train_steps": _NEVER,
        "valid_steps": _NEVER,
        "save_checkpoint_steps": workload.checkpoint_every or _NEVER,
        "save_model": str(folder / "model"),
        "report_every": 1,
        "seed": 1,
    }


def _noam(model: Transformer, recipe: Recipe | None) -> dict[str, Any]:
    """Return the Transformer schedule of OpenNMT-py, by default with the values of its examples.

    The rate of update n is `learning_rate` · width^-½ · min(n^-½, n · warmup^-1.5) (Vaswani et al. 2017,
    section 5.3). It peaks when n = warmup, so a given peak needs `learning_rate` = peak · √(width · warmup).
    """
    if recipe is None:
        return {"decay_method": "noam", "learning_rate": 2.0, "warmup_steps": 4000, "adam_beta2": 0.998}
    return {
        "decay_method": "noam",
        "learning_rate": recipe.learning_rate * math.sqrt(model.width * recipe.warmup),
        "warmup_steps": recipe.warmup,
        "adam_beta1": recipe.betas[0],
        "adam_beta2": recipe.betas[1],
    }


def huggingface_config(model: Transformer, workload: Workload, folder: Path) -> dict[str, Any]:
    """Return the configuration for huggingface_train.py."""
    corpus = workload.corpus
    size = corpus.vocabulary_size  # includes our four special symbols, replaced by its two
    mean = corpus.targets / len(corpus.lengths)
    rate = workload.recipe or Recipe()
    betas = {"adam_beta1": rate.betas[0], "adam_beta2": rate.betas[1]} if workload.recipe else {}
    saving: dict[str, Any] = {"save_strategy": "no"}
    if workload.checkpoint_every:
        saving = {"save_strategy": "steps", "save_steps": workload.checkpoint_every, "save_only_model": True}
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
            # Batches by tokens are not supported: the number of sentences with this many tokens on average.
            "per_device_train_batch_size": round(workload.batch_tokens / mean),
            "train_sampling_strategy": "group_by_length",
            "label_smoothing_factor": workload.label_smoothing,
            "lr_scheduler_type": "inverse_sqrt",
            "learning_rate": rate.learning_rate,
            "warmup_steps": rate.warmup,
            **betas,
            "max_grad_norm": 1.0,
            "max_steps": _NEVER,
            **saving,
            "eval_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
            "logging_steps": _NEVER,
            "use_cpu": True,
            "remove_unused_columns": False,
            "seed": 1,
        },
    }


def joeynmt_config(
    model: LSTM | Transformer, workload: Workload, folder: Path, *, shuffle: bool
) -> dict[str, Any]:
    """Return the configuration for `joeynmt train`."""
    rate = workload.recipe or Recipe()
    # The default minimum rate of 1e-4 would exceed the rate in the first tenth of the warm-up.
    own = {"adam_betas": list(rate.betas), "learning_rate_min": 1e-9} if workload.recipe else {}
    side = {"level": "word", "voc_file": workload.corpus.file(VOCABULARY)}  # pieces are treated as words
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
            **_joeynmt_stacks(model, norm_first=workload.recipe is not None),
        },
        "training": {
            "optimizer": "adam",
            "scheduling": "warmupinversesquareroot",
            "learning_rate": rate.learning_rate,
            "learning_rate_warmup": rate.warmup,
            **own,
            "clip_grad_norm": 1.0,
            "label_smoothing": workload.label_smoothing,
            "normalization": "tokens",
            "batch_type": "token",
            "batch_size": workload.batch_tokens,
            "shuffle": shuffle,
            "epochs": _NEVER,
            "logging_freq": 1,
            "validation_freq": workload.checkpoint_every
            or _NEVER,  # joeynmt_train.py saves instead of validating
        },
        "testing": {},
    }


def _joeynmt_stacks(model: LSTM | Transformer, *, norm_first: bool) -> dict[str, Any]:
    """Return encoder and decoder options, with layer normalisation as by default, or before each block.

    By default, the Transformer encoder of Joey NMT normalises before each block, without a final normalisation,
    and its decoder after each block.
    """
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
        both |= {"layer_norm": "pre"} if norm_first else {}
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
            "input_feeding": False,  # as in seqloom; the decoder of Joey NMT still computes step by step
        },
    }
