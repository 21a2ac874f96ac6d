"""Comparison of models on the same data, split, tokenizer and budget."""
