"""n-gram language models."""
