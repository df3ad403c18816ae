"""The runs of train, evaluate and predict: input, tracing, state, the loop of steps, saving."""

from muster.estimator.loop._run_loop import session_of_loop as session_of_loop
