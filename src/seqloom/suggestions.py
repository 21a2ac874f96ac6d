"""Suggestions for options that do not exist: close matches, and the names that other toolkits use."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from seqloom.errors import SeqloomError

# An option, or an option with a value, and its names in fairseq, OpenNMT, Joey NMT, Sockeye, Marian and
# Hugging Face Transformers. A name may have several options; the first that is available is suggested.
FOREIGN_NAMES = {
    # Files
    "--out": "o output output_dir output_path out_dir save_dir save_model model_dir results_path save_path",
    "--source": "src source_file src_file train_source input",
    "--target": "tgt target_file tgt_file ref reference references train_target",
    "--valid": "validation valid_sets validpref valid_file validation_file dev dev_file",
    "--valid-source": "validation_source valid_src dev_source",
    "--valid-target": "validation_target valid_tgt dev_target",
    "--checkpoint": "ckpt restore_file checkpoint_path epoch",
    "--ensemble": "ensemble_models models",
    "data.train": "train train_file train_sets trainpref train_data data",
    # Model
    "--model": "arch architecture model_type type encoder_type",
    "--init-from": "train_from finetune_from_model load_model pretrained_model model_name_or_path pretrained",
    "model.width": "d_model hidden_size rnn_size emb_size embedding_dim word_vec_size encoder_embed_dim "
    "num_embed transformer_model_size dim_emb dim_rnn dim",
    "model.layers": "num_layers num_hidden_layers encoder_layers enc_layers enc_depth n_layers",
    "model.decoder_layers": "dec_layers dec_depth num_decoder_layers",
    "model.heads": "num_heads num_attention_heads encoder_attention_heads transformer_heads nhead n_heads "
    "transformer_attention_heads attention_heads",
    "model.ffn": "d_ff ff_size ffn_dim encoder_ffn_embed_dim transformer_ff transformer_dim_ffn "
    "transformer_feed_forward_num_hidden dim_feedforward intermediate_size",
    "model.dropout": "dropout_rate transformer_dropout hidden_dropout dropout_prob",
    "model.tie": "share_all_embeddings tied_embeddings tied_embeddings_all tied_softmax weight_tying_type "
    "share_embeddings tie_word_embeddings share_decoder_input_output_embed",
    # Text
    "text.vocab_size": "vocabulary_size dim_vocabs src_vocab_size tgt_vocab_size bpe_size num_words voc_limit",
    "data.max_length": "max_seq_len max_source_length max_source_positions src_seq_length max_sent_length",
    # Training
    "train.max_epochs": "epochs max_epoch num_epochs num_train_epochs max_num_epochs after_epochs",
    "train.max_steps": "steps max_update max_updates train_steps updates after_batches max_step num_steps",
    "train.max_minutes": "minutes max_time stop_time max_hours stop_time_hours time_limit",
    "train.batch_tokens": "max_tokens tokens_per_batch mini_batch_words",
    "train.batch_tokens=TOKENS": "batch_size bsz max_sentences mini_batch per_device_train_batch_size "
    "train_batch_size",
    "search.batch_tokens=TOKENS": "batch_size bsz max_sentences mini_batch per_device_eval_batch_size",
    "train.accumulate": "accum_count update_freq gradient_accumulation_steps batch_multiplier update_interval "
    "optimizer_delay grad_accum accumulate_grad_batches accumulation",
    "train.learning_rate": "lr learn_rate initial_learning_rate",
    "train.schedule": "lr_scheduler lr_scheduler_type learning_rate_scheduler_type scheduling decay_method "
    "scheduler",
    "train.warmup": "warmup_updates warmup_steps lr_warmup learning_rate_warmup num_warmup_steps",
    "train.optimizer": "optim optimiser optim_type",
    "train.betas": "adam_betas optimizer_betas optimizer_params",
    "train.clip": "clip_norm max_grad_norm clip_grad_norm gradient_clipping_threshold grad_clip gradient_clip "
    "gradient_clip_val",
    "train.weight_decay": "wd l2",
    "train.label_smoothing": "smoothing label_smoothing_factor label_smoothing_eps",
    "train.ema": "exponential_smoothing ema_decay moving_average_decay",
    "train.average": "average_checkpoints average_decay num_average",
    "train.precision=bfloat16": "fp16 bf16 amp mixed_precision half",
    "train.precision": "dtype",
    "train.patience": "early_stopping early_stopping_patience max_num_checkpoint_not_improved",
    "train.validate_every": "valid_freq validation_freq valid_steps validate_interval_updates eval_steps "
    "validate_interval eval_every",
    "train.checkpoint_every": "save_freq save_steps save_interval_updates save_checkpoint_steps save_every "
    "checkpoint_interval save_interval",
    "train.keep": "keep_last_epochs keep_interval_updates keep_checkpoint keep_last_params keep_best_ckpts "
    "save_total_limit",
    "train.log_every": "log_interval logging_steps logging_freq report_every disp_freq",
    "train.metrics": "eval_metric eval_metrics valid_metrics",
    "train.best_by": "best_checkpoint_metric early_stopping_metric metric_for_best_model optimized_metric",
    "train.tensorboard": "tensorboard_logdir tensorboard_log_dir tb report_to",
    "train.seed": "random_seed",
    "--device": "devices",
    "--device cpu": "cpu use_cpu no_cuda",
    "--device cuda": "cuda gpu use_cuda gpus",
    "train.device": "devices",
    "train.device=cpu": "cpu use_cpu no_cuda",
    "train.device=cuda": "cuda gpu use_cuda gpus",
    "--threads": "cpu_threads num_threads num_workers workers",
    "train.threads": "cpu_threads num_threads num_workers workers",
    "--processes": "world_size nproc_per_node nproc num_gpus distributed_world_size",
    # Search
    "--beam": "b beams beam_size num_beams beam_width",
    "search.beam": "beams beam_size num_beams beam_width",
    "--nbest": "n_best nbest_size num_return_sequences",
    "search.nbest": "n_best nbest_size num_return_sequences",
    "search.length_penalty": "lenpen alpha beam_alpha length_penalty_alpha normalize",
    "search.word_reward": "word_penalty",
    "search.no_repeat": "no_repeat_ngram_size block_ngram_repeat ngram_block",
    "--max-length": "max_new_tokens max_tokens length max_len",
    "search.longest": "max_new_tokens max_output_length max_length max_decode_length",
    "search.min_length": "min_len min_output_length",
    "search.max_length_factor": "max_len_a max_length_ratio",
    "search.max_length_extra": "max_len_b",
    "search.groups": "diverse_beam_groups num_beam_groups",
    "search.diversity": "diverse_beam_strength diversity_penalty",
    "search.forbid": "bad_words bad_words_ids avoid_list",
    "search.shortlist": "restrict_lexicon lexical_shortlist",
    "--sample": "do_sample sampling random_sampling output_sampling",
    "--top-k": "sampling_topk topk random_sampling_topk sample_top_k",
    "--top-p": "sampling_topp topp random_sampling_topp nucleus",
    "--temperature": "random_sampling_temp sampling_temperature softmax_temperature",
    "--metrics": "metric scoring",
    "--engine": "backend",
    "--to": "target_format",
    "--quantization": "quantize compute_type",
    "--set": "override overrides opt option",
}


def suggest(name: str, options: Sequence[str], others: Sequence[str] = ()) -> list[str]:
    """Return the options that `name` probably means, from `options` if possible, else from `others`.

    Options are flags (`--out`) or dotted names (`train.max_epochs`); only the last part of a name is compared.
    """
    key = _last_part(name)
    for group in (options, others):
        if same := [option for option in group if _last_part(option) == key]:
            return same
    known = {*options, *others}
    for option, names in FOREIGN_NAMES.items():
        if key in names.split() and _without_value(option) in known:
            return [option]
    for group in (options, others):
        if near := difflib.get_close_matches(key, {_last_part(option) for option in group}, n=1, cutoff=0.7):
            return [option for option in group if _last_part(option) == near[0]]
    return []


def _last_part(option: str) -> str:
    return option.rpartition(".")[2].lstrip("-").replace("-", "_").lower()


def _without_value(option: str) -> str:
    return option.partition("=")[0].partition(" ")[0]


def unknown_option(name: str, options: Sequence[str], where: str, others: Iterable[str] = ()) -> SeqloomError:
    """Return the error for an unknown option; its hint suggests the option that was probably meant."""
    near = suggest(name, options, list(others))
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(options)}"
    return SeqloomError(f"There is no option {name} (in {where}).", hint)
