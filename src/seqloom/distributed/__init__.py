"""Several processes that train or decode together."""
