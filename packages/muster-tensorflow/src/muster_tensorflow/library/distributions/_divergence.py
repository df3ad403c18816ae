"""The Kullback-Leibler divergence of two distributions, by their classes.

Source: tensorflow/python/ops/distributions/kullback_leibler.py.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp

from muster_tensorflow.library.ops._arrays import Array
from muster_tensorflow.programs.v1.operations._assertions import assert_

_DIVERGENCES: dict[tuple[type, type], Callable[..., Any]] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


class RegisterKL:
    """Decorate the function that computes the divergence of a class from another one.

    Args:
        dist_cls_a: The class of the first distribution.
        dist_cls_b: That of the second.
    """

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        self._key = (dist_cls_a, dist_cls_b)

    def __call__(self, kl_fn: _Function) -> _Function:
        """Register a function of two distributions and, by the name ``name``, a name.

        Raises:
            ValueError: There is one for these classes.
        """
        if self._key in _DIVERGENCES:
            names = " and ".join(each.__name__ for each in self._key)
            raise ValueError(f"There is a divergence of {names} already: {_DIVERGENCES[self._key]}.")
        _DIVERGENCES[self._key] = kl_fn
        return kl_fn


def kl_divergence(
    distribution_a: Any,
    distribution_b: Any,
    allow_nan_stats: bool = True,
    name: str | None = None,
) -> Array:
    """Return the divergence ``KL(a || b)``, in nats, of shape ``batch_shape``.

    Args:
        distribution_a: The distribution that is averaged over.
        distribution_b: The other one.
        allow_nan_stats: Return NaN where it is that, rather than raise.
        name: Handed to the function.

    Raises:
        NotImplementedError: Nothing is registered for the two classes, or those they inherit from.
    """
    classes = (type(distribution_a), type(distribution_b))
    found = [
        (first + second, _DIVERGENCES[a, b])
        for first, a in enumerate(classes[0].__mro__)
        for second, b in enumerate(classes[1].__mro__)
        if (a, b) in _DIVERGENCES
    ]
    if not found:
        raise NotImplementedError(
            f"No KL(distribution_a || distribution_b) registered for distribution_a type "
            f"{classes[0].__name__} and distribution_b type {classes[1].__name__}"
        )
    result: Array = min(found, key=lambda each: each[0])[1](distribution_a, distribution_b, name=name)
    if not allow_nan_stats:
        assert_(~jnp.any(jnp.isnan(result)), ["The divergence is NaN for these parameters."])
    return result
