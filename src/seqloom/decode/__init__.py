"""Search and the translator."""
