"""Phrase-based translation."""
