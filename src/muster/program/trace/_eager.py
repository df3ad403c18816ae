"""Run steps untraced, for debugging, and compute gradients of such code."""

import itertools
from collections.abc import Callable

import jax

from muster._errors import GradientError

_eager = False


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Run steps untraced from now on, so that ``print`` and breakpoints in them see numbers. Slow.

    This applies to the whole process, as in TensorFlow.

    Args:
        run_eagerly: Whether to.

    Source: tensorflow/python/eager/polymorphic_function/eager_function_run.py, ``run_functions_eagerly``.
    """
    global _eager
    _eager = run_eagerly


def functions_run_eagerly() -> bool:
    """Return whether steps run untraced."""
    return _eager


def eager_gradients(
    leaves: Callable[[], list[jax.Array]], rerun: Callable[[list[jax.Array], int], None], until: int
) -> Callable[[jax.Array, list[jax.Array]], list[jax.Array]]:
    """Make a function that computes gradients of code that runs on numbers.

    For each gradient, the code runs again under ``jax.grad``, up to the place that asks for it.

    Args:
        leaves: Returns the inputs of the code so far, the possible sources of gradients.
        rerun: Runs the code on other leaves, up to the gradient of some number.
        until: The number of the gradient at which this run must end; -1 for none.

    Returns:
        A function of a target and of some of the leaves that returns the target's gradients.
    """
    calls = itertools.count()

    def gradients(total: jax.Array, sources: list[jax.Array]) -> list[jax.Array]:
        call, inputs = next(calls), leaves()
        if call == until:
            raise _Reached(total)
        places = [next((i for i, leaf in enumerate(inputs) if leaf is s), None) for s in sources]
        if None in places:
            raise GradientError(
                f"A source of gradients, of shape {tuple(sources[places.index(None)].shape)}, was "
                "computed or assigned in this step. Run eagerly, gradients are with respect to "
                "variables that the step has not changed yet, or to its input. Turn "
                "run_functions_eagerly off for this model."
            )

        def total_of(values: list[jax.Array]) -> jax.Array:
            replaced = dict(zip(places, values, strict=True))
            try:
                rerun([replaced.get(i, leaf) for i, leaf in enumerate(inputs)], call)
            except _Reached as reached:
                return reached.total
            raise GradientError("Run eagerly a second time, the step asked for other gradients.")

        grads: list[jax.Array] = jax.grad(total_of)(sources)
        return grads

    return gradients


class _Reached(Exception):
    """Ends an eager run at the gradient that it was started for, and carries its target."""

    def __init__(self, total: jax.Array) -> None:
        self.total = total
