"""Marian and OPUS-MT models: import and export."""
