"""New training pairs from models: back-translation, and distillation of teachers into a small student."""
