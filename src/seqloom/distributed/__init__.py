"""Training and decoding with several processes."""
