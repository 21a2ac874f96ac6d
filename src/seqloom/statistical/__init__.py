"""Models that are counted, not trained by gradient: the rungs before the neural ones."""
