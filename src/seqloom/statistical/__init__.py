"""Count-based and EM models: the steps of the ladder before the neural networks."""
