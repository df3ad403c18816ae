"""The runs of train, evaluate and predict: input, tracing, state, the loop of steps, saving."""
