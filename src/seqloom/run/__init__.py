"""Run directories: configuration, files, model, loading and training."""
