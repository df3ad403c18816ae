"""The runs of train, evaluate and predict: input, tracing, state, the loop of steps, saving."""

from muster.estimator.loop._run_loop import is_in_loop as is_in_loop
