"""Search, sampling, scoring and translators."""
