"""What a model looks at, as data and as pictures."""
