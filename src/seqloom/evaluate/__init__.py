"""Metrics with signatures and intervals."""
