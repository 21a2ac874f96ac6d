"""Choice of search options and training options by their results on validation data."""
