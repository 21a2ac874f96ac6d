"""Claims about sequence models as experiments: one module per claim, discovered by its file."""
