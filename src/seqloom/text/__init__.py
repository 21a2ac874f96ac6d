"""Tokenizers and vocabulary."""
