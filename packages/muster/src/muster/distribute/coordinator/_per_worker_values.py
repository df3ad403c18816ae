"""Per-worker values, as arguments of scheduled functions."""

from collections.abc import Iterable
from typing import Any

import jax

from muster.distribute.coordinator._remote_value import RemoteValue
from muster.distribute.replicas._values import is_leaf


class PerWorkerValues:
    """A value for each worker: a scheduled function gets that of the worker that runs it.

    Args:
        values: The ``RemoteValue`` of each worker, in order. A function that is scheduled with them waits for
            them; all have the same structure, shapes and dtypes.

    Raises:
        TypeError: One of them is no ``RemoteValue``.

    Source: tensorflow/python/distribute/coordinator/values.py, ``PerWorkerValues``. There nothing takes one
        that a program has made.
    """

    def __init__(self, values: Iterable[RemoteValue]) -> None:
        self._values = tuple(values)
        for value in self._values:
            if not isinstance(value, RemoteValue):
                raise TypeError(
                    f"`PerWorkerValues` should only take `RemoteValue`s, got {value!r}. They are what "
                    "`schedule` returns."
                )

    @property
    def values(self) -> tuple[RemoteValue, ...]:
        """The value of each worker; none where the workers have them."""
        return self._values


def of_each_worker(args: Any, workers: int) -> list[tuple[list[Any], Any]]:
    """Return flat arguments and their structure: for each worker, or once if all get the same.

    Args:
        args: A nested structure.
        workers: The number of workers.

    Raises:
        ValueError: There are values of another number of workers.
    """
    leaves, structure = jax.tree.flatten(args, is_leaf=is_leaf)
    if not any([isinstance(leaf, PerWorkerValues) and leaf.values for leaf in leaves]):
        return [(leaves, structure)]
    by_leaf = [[leaf] * workers for leaf in leaves]
    for number, leaf in enumerate(leaves):
        if not isinstance(leaf, PerWorkerValues) or not leaf.values:
            continue
        if len(leaf.values) != workers:
            raise ValueError(
                f"PerWorkerValues of {len(leaf.values)} values cannot be given to {workers} workers: each "
                "needs its own."
            )
        by_leaf[number] = [value.fetch() for value in leaf.values]
    by_worker = [jax.tree.unflatten(structure, each) for each in zip(*by_leaf, strict=True)]
    return [jax.tree.flatten(each, is_leaf=is_leaf) for each in by_worker]
