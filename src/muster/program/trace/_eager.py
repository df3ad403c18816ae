"""Whether steps run untraced, for debugging, and gradients of code that does."""

import itertools
from collections.abc import Callable
from typing import Any

import jax

from muster._errors import GradientError

Array = Any

_eager = False


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Run steps untraced from now on, so that ``print`` and breakpoints in them see numbers. Slow.

    It counts for the whole process, as in TensorFlow.

    Source: tensorflow/python/eager/polymorphic_function/eager_function_run.py, ``run_functions_eagerly``.
    """
    global _eager
    _eager = run_eagerly


def functions_run_eagerly() -> bool:
    """Whether steps run untraced."""
    return _eager


def eager_gradients(
    leaves: Callable[[], list[Array]], again: Callable[[list[Array], int], None], until: int
) -> Callable[[Array, list[Array]], list[Array]]:
    """Gradients of code that runs on numbers: it runs again for each, under ``jax.grad``, up to that place.

    Args:
        leaves: what the code was given so far, and so can be differentiated with respect to.
        again: runs the code on other leaves, up to the gradient of some number.
        until: the number of the gradient at which this run is to end; -1 for none.

    Returns:
        From a number of the run, and some of the leaves, to its gradients.
    """
    calls = itertools.count()

    def gradients(total: Array, sources: list[Array]) -> list[Array]:
        call, given = next(calls), leaves()
        if call == until:
            raise _Reached(total)
        places = [next((i for i, leaf in enumerate(given) if leaf is s), None) for s in sources]
        if None in places:
            raise GradientError(
                f"A source of gradients, of shape {tuple(sources[places.index(None)].shape)}, was "
                "computed or assigned in this step. Run eagerly, gradients are with respect to "
                "variables that the step has not changed yet, or to its input. Turn "
                "run_functions_eagerly off for this model."
            )

        def total_of(values: list[Array]) -> Array:
            replaced = dict(zip(places, values, strict=True))
            try:
                again([replaced.get(i, leaf) for i, leaf in enumerate(given)], call)
            except _Reached as reached:
                return reached.total
            raise GradientError("Run eagerly a second time, the step asked for other gradients.")

        grads: list[Array] = jax.grad(total_of)(sources)
        return grads

    return gradients


class _Reached(Exception):
    """The eager run has come to the gradient that it was started for: this carries the value out."""

    def __init__(self, total: Array) -> None:
        self.total = total
