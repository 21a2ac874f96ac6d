"""One file, one architecture."""
