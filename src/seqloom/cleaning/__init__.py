"""Cleaning of parallel corpora by rules: duplicates, lengths, scripts, languages, wrong translations."""
