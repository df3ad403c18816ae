"""`function`: user code that is called again and again, compiled for each kind of arguments."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import OutOfRangeError
from muster.distribute.functions._call import (
    Call,
    constant_of,
    data_of,
    filled,
    flattened,
    is_dynamic,
    iterators_among,
    kind_of_replicas,
)
from muster.distribute.functions._draws import Branch, Draws
from muster.distribute.functions._traced_iterator import EagerIterator
from muster.distribute.input._distributed_dataset import DistributedDataset, DistributedIterator
from muster.distribute.replicas._replica_context import current_context
from muster.distribute.replicas._values import PerReplica, is_array, is_leaf
from muster.program import current_scope, functions_run_eagerly, run_eagerly

# Arguments without a structure to look into at every call.
_PLAIN = (np.ndarray, jax.Array, PerReplica)


class Function:
    """Calls a Python function as one compiled program.

    It is traced when it is first called with arguments of some structure, shapes and types, and for each new
    value of an argument that is no array. It may use Keras' variables, layers, metrics and optimizers that
    exist, ``GradientTape``, and ``run``, ``reduce`` and ``gather`` of a strategy.

    With a distributed dataset among its arguments it is an epoch's loop, and called as it is: ``run``,
    ``reduce`` and the functions that it calls are compiled, each by itself.

    Args:
        python_function: The function.

    Source: tensorflow/python/eager/polymorphic_function/polymorphic_function.py, ``Function``.
    """

    def __init__(self, python_function: Callable[..., Any]) -> None:
        self.python_function = python_function
        self._calls: dict[Any, Call | Branch] = {}
        functools.update_wrapper(self, python_function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it; inside of a step, run its code."""
        if current_scope() is not None:
            return self.python_function(*args, **kwargs)
        if functions_run_eagerly():
            return self._call_eagerly(args, kwargs)
        structure: Any = None
        leaves: Sequence[Any] = args
        if kwargs or not all([isinstance(arg, _PLAIN) for arg in args]):
            leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=is_leaf)
        kinds = tuple(map(_kind_of, leaves))
        key = (structure, kinds, current_context())
        call = self._calls.get(key)
        if isinstance(call, Call):
            return call(leaves)
        if DistributedDataset in kinds:
            return self.python_function(*args, **kwargs)
        if DistributedIterator in kinds:
            return self._call_drawing(key, leaves)
        structure = jax.tree.structure((args, kwargs), is_leaf=is_leaf)
        call = Call(self.python_function, leaves, structure)
        results = call(leaves)  # traces it once more, to compile it; if that fails, the next call begins anew
        self._calls[key] = call
        return results

    def _call_eagerly(self, args: Any, kwargs: Any) -> Any:
        """Run its code on numbers."""
        leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=is_leaf)
        if any(isinstance(leaf, DistributedDataset) for leaf in leaves):
            return self.python_function(*args, **kwargs)
        iterators = {source: EagerIterator(source) for source in iterators_among(leaves)}
        leaves = [iterators[leaf] if isinstance(leaf, DistributedIterator) else leaf for leaf in leaves]
        constants = [constant_of(leaf) for leaf in leaves]
        dynamic = [leaf for leaf in leaves if is_dynamic(leaf)]
        per_replica = [kind_of_replicas(leaf) for leaf in dynamic]

        def run(*arrays: jax.Array) -> Any:
            values = [each.begin() if isinstance(each, EagerIterator) else each for each in constants]
            args, kwargs = jax.tree.unflatten(structure, filled(values, arrays, per_replica))
            return flattened(self.python_function(*args, **kwargs))

        try:
            arrays, results = run_eagerly(run, [jnp.asarray(data_of(leaf)) for leaf in dynamic])
        except OutOfRangeError:
            for iterator in iterators.values():
                iterator.give_back()
            raise
        return results.filled(arrays)

    def _call_drawing(self, key: Any, leaves: Sequence[Any]) -> Any:
        """Call it with the next batches of the iterators among its arguments.

        What it draws next may depend on what it has drawn: so the way to a compiled call is a tree.
        """
        sources = iterators_among(leaves)
        key = (*key, tuple(sources.index(leaf) for leaf in leaves if isinstance(leaf, DistributedIterator)))
        draws = Draws(sources)
        try:
            call = self._calls.get(key)
            while isinstance(call, Branch):
                call = call.then.get(draws.draw(call.place, call.asks).kind)
            if call is None:
                call = Call(self.python_function, leaves, key[0], draws)
                results = call([*leaves, *draws.leaves()])  # traces it once more, to compile it
                self._keep(key, draws, call)
                return results
        except BaseException:  # nothing has changed
            draws.give_back()
            raise
        return call([*leaves, *draws.leaves()])

    def _keep(self, key: Any, draws: Draws, call: Call) -> None:
        """Keep a call where what it draws leads."""
        calls: dict[Any, Any] = self._calls
        for draw in draws.made:
            branch = calls.get(key)
            if not isinstance(branch, Branch) or (branch.place, branch.asks) != (draw.place, draw.asks):
                branch = calls[key] = Branch(draw.place, draw.asks)
            calls, key = branch.then, draw.kind
        calls[key] = call

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method: the instance is one more argument."""
        return self if instance is None else functools.partial(self, instance)


def function(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function that is called again and again.

    Args:
        func: The function; None to decorate with options.
        options: Those of TensorFlow (``jit_compile``, ``reduce_retracing``, ``input_signature``, …) are
            accepted; everything is compiled, once for each kind of arguments.

    Source: ``tf.function``.
    """
    return Function if func is None else Function(func)


def _kind_of(leaf: Any) -> Any:
    """Return the kind of an argument: a function is traced anew for each."""
    if is_array(leaf):
        return leaf.shape, leaf.dtype
    if isinstance(leaf, PerReplica):
        return PerReplica, leaf.data.shape, leaf.data.dtype, leaf.replicated
    if isinstance(leaf, DistributedIterator | DistributedDataset):
        return type(leaf)
    if hasattr(leaf, "__next__"):
        raise TypeError(
            f"A function takes only iterators of distributed datasets, got {leaf!r}: pass "
            "iter(strategy.experimental_distribute_dataset(dataset))."
        )
    try:
        hash(leaf)
    except TypeError:
        return type(leaf), id(leaf)
    return type(leaf), leaf
