"""`muster.function`: compiles user code for each kind of its arguments."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import OutOfRangeError
from muster.data import TensorSpec
from muster.distribute.engine._row_programs import UnevenError
from muster.distribute.engine._split import WholeWarning
from muster.distribute.functions._compiled_function import CompiledFunction, iterators_among
from muster.distribute.functions._concrete_function import ConcreteFunction, as_spec, concrete, is_spec
from muster.distribute.functions._draws import DrawBranch, Draws
from muster.distribute.functions._traced_function import EagerIterator, flattened, replaced, separated
from muster.distribute.input._distributed_dataset import (
    CapturedIteratorError,
    DistributedDataset,
    DistributedIterator,
)
from muster.distribute.replicas._replica_context import current_context
from muster.distribute.replicas._values import PerReplica, is_array, is_leaf, replicated
from muster.distribute.workers._workers import Workers
from muster.program.gradients import is_tape_open
from muster.program.trace import functions_run_eagerly, run_eagerly
from muster.program.variables import current_scope, sharing
from muster.program.variables.keras_internals import is_stateless


class ReplicatedFallback:
    """Calls a function with all rows of each uneven batch in place of the rows of each replica.

    Args:
        python_function: The function.
        leaves: The flat arguments of the first call.
        structure: The structure of the arguments.
        draws: As for ``CompiledFunction``.
        workers: The processes; None if this one has the rows of all.
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        leaves: Sequence[Any],
        structure: jax.tree_util.PyTreeDef,
        draws: Draws | None,
        workers: Workers | None,
    ) -> None:
        self._workers = workers
        self._call = CompiledFunction(python_function, self._whole(leaves), structure, draws, whole=True)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Run the compiled function, with arguments as for ``CompiledFunction``."""
        return self._call(self._whole(leaves))

    def _whole(self, leaves: Sequence[Any]) -> list[Any]:
        return [
            _all_rows(leaf, self._workers) if isinstance(leaf, PerReplica) and leaf.kind.has_rows else leaf
            for leaf in leaves
        ]


def can_be_whole(leaves: Sequence[Any], workers: Workers | None) -> bool:
    """Return whether arguments have uneven batches, and no other values computed from such.

    Args:
        leaves: Flat arguments, and the arrays that were drawn from iterators.
        workers: The processes, with which rows can be exchanged; None if they are not known.
    """
    uneven = [leaf for leaf in leaves if isinstance(leaf, PerReplica) and leaf.kind.is_uneven]
    return bool(uneven) and all(
        leaf.kind.has_rows and (workers is not None or _is_complete(leaf)) for leaf in uneven
    )


def _is_complete(value: PerReplica) -> bool:
    """Return whether this process has the values of all replicas."""
    return len(value.values) == len(value.kind.sizes or ())


def _all_rows(value: PerReplica, workers: Workers | None) -> PerReplica:
    own = value.values
    rows = np.concatenate([np.asarray(each) for each in own])
    if workers is not None and not _is_complete(value):
        rows = np.concatenate(workers.all_gather(rows))
    return replicated(rows, len(own))


_UNKNOWN = object()
# Arguments without a structure to look into at every call.
_PLAIN = (np.ndarray, jax.Array, PerReplica)
_CONSTANTS = (bool, int, float, str, type(None))
# The argument by which a function gets the iterators that its code has from elsewhere.
_CAPTURED = "muster captured iterators"


class Function:
    """A Python function that is traced and called as one compiled program.

    It is traced for each new combination of structure, shapes and dtypes of its arguments, and for each new
    value of an argument that is no array. It may use existing variables, layers, metrics and optimizers of
    Keras, ``GradientTape``, and ``run``, ``reduce`` and ``gather`` of a strategy.

    With a distributed dataset among its arguments it is the loop of an epoch, and runs uncompiled: ``run``,
    ``reduce`` and the functions that it calls are compiled separately.

    Args:
        python_function: The function.
        input_signature: The `TensorSpec` s of its arguments, for `tf.saved_model.save`; None for any.

    Attributes:
        mends: Whether a front end may mend the code if it cannot be traced.

    Source: tensorflow/python/eager/polymorphic_function/polymorphic_function.py, ``Function``.
    """

    mends = True
    _runs_once = False
    """True to run the Python code only once for each kind of arguments, where possible."""
    _takes_captured = False
    """True if its code may draw from iterators other than its arguments."""

    def __init__(
        self, python_function: Callable[..., Any], input_signature: Sequence[Any] | None = None
    ) -> None:
        if not callable(python_function):
            raise TypeError(f"`function` needs a function, got {python_function!r}.")
        self.python_function = python_function
        self.input_signature = input_signature
        self._calls: dict[Any, CompiledFunction | ReplicatedFallback | DrawBranch] = {}
        # What concrete functions take, and these.
        self._concrete: list[tuple[tuple[tuple[Any, ...], dict[str, Any]], ConcreteFunction]] = []
        # Likewise, calls in other functions.
        self._inner: dict[Any, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self._whole_warning = WholeWarning()
        # The iterators from which the code draws, although they are none of its arguments.
        self._captured: tuple[DistributedIterator, ...] = ()
        functools.update_wrapper(self, python_function)
        with contextlib.suppress(TypeError, ValueError):  # functions of C have none
            # For inspect.getfullargspec, which does not follow `__wrapped__`: Keras asks by it in Lambda.
            self.__signature__ = inspect.signature(python_function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function; the Python function if another one is traced, or a tape is open.

        Keras traces it, too: to build a model whose ``call`` it is, and in steps of its own.
        """
        if current_scope() is not None or is_stateless():
            self._note_inner(args, kwargs)
            return self.python_function(*args, **kwargs)
        if is_tape_open():  # its gradients go through operations, one by one
            args, kwargs = as_traced((args, kwargs))
            return self.python_function(*args, **kwargs)
        while True:
            given = kwargs | {_CAPTURED: self._captured} if self._captured else kwargs
            try:
                return self._call_outermost(args, given)
            except CapturedIteratorError as exc:
                if not self._takes_captured or exc.iterator in self._captured:
                    raise
                self._captured = (*self._captured, exc.iterator)

    def _call_outermost(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if functions_run_eagerly():
            return self._call_eagerly(args, kwargs)
        structure: Any = None
        leaves: Sequence[Any] = args
        if kwargs or not all([isinstance(arg, _PLAIN) for arg in args]):
            leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=is_leaf)
        kinds = tuple(map(self._kind_of, leaves))
        key = (structure, kinds, current_context())
        call = self._calls.get(key)
        if isinstance(call, CompiledFunction | ReplicatedFallback):
            return call(leaves)
        if DistributedDataset in kinds:
            kwargs.pop(_CAPTURED, None)
            return self.python_function(*args, **kwargs)
        if DistributedIterator in kinds:
            return self._call_drawing(key, leaves)
        structure = jax.tree.structure((args, kwargs), is_leaf=is_leaf)
        call, results = self._first_call(leaves, structure)  # if it fails, the next call starts over
        self._calls[key] = call
        return results

    def _first_call(
        self, leaves: Sequence[Any], structure: Any, draws: Draws | None = None
    ) -> tuple[CompiledFunction | ReplicatedFallback, Any]:
        """Trace, compile and call the function; on all rows if replicas cannot run it on unequal numbers."""
        call: CompiledFunction | None = None
        try:
            call = CompiledFunction(
                self._code, leaves, structure, draws, once=self._runs_once, mends=self.mends
            )
            return call, call(_with_drawn(leaves, draws))  # traces it again, to compile it
        except Exception as exc:
            if call is not None and not isinstance(exc, UnevenError):
                raise  # it has begun to run
            error = exc.cause if isinstance(exc, UnevenError) else exc
            workers = None if call is None else call.strategy.workers.in_loops
            if not can_be_whole(_with_drawn(leaves, draws), workers):
                raise error from error.__cause__
        try:
            whole = ReplicatedFallback(self._code, leaves, structure, draws, workers)
            results = whole(_with_drawn(leaves, draws))
        except Exception:  # the code fails on any rows
            raise error from error.__cause__
        self._whole_warning.warn(error)
        return whole, results

    def _code(self, *args: Any, **kwargs: Any) -> Any:
        """Call the Python function, with what stands for the iterators that it has from elsewhere."""
        stand_ins = kwargs.pop(_CAPTURED, ())
        with contextlib.ExitStack() as shared:
            for iterator, stand_in in zip(self._captured, stand_ins, strict=False):
                shared.enter_context(sharing(iterator, stand_in))
            return self.python_function(*args, **kwargs)

    def _call_eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the Python function on arrays rather than tracers."""
        leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=is_leaf)
        if any(isinstance(leaf, DistributedDataset) for leaf in leaves):
            return self.python_function(*args, **kwargs)
        iterators = {source: EagerIterator(source) for source in iterators_among(leaves)}
        arrays, arguments = separated(replaced(leaves, iterators), structure)

        def run(*arrays: jax.Array) -> Any:
            for iterator in iterators.values():
                iterator.begin()
            args, kwargs = arguments.filled(arrays)
            return flattened(self._code(*args, **kwargs))

        try:
            arrays, results = run_eagerly(run, list(map(jnp.asarray, arrays)))
        except OutOfRangeError:
            for iterator in iterators.values():
                iterator.give_back()
            raise
        return results.filled(arrays)

    def _call_drawing(self, key: Any, leaves: Sequence[Any]) -> Any:
        """Call it with the next batches of the iterators among its arguments.

        The next draw may depend on the batches drawn before, so compiled calls are the leaves of a tree.
        """
        sources = iterators_among(leaves)
        key = (*key, tuple(sources.index(leaf) for leaf in leaves if isinstance(leaf, DistributedIterator)))
        draws = Draws(sources)
        try:
            call = self._calls.get(key)
            while isinstance(call, DrawBranch):
                call = call.then.get(draws.draw(call.source, call.optional).kind)
            if call is None:
                call, results = self._first_call(leaves, key[0], draws)
                self._keep(key, draws, call)
                return results
        except BaseException:  # nothing has changed
            draws.give_back()
            raise
        return call(_with_drawn(leaves, draws))

    def _keep(self, key: Any, draws: Draws, call: CompiledFunction | ReplicatedFallback) -> None:
        """Keep a call at the end of the path of its draws."""
        calls: dict[Any, Any] = self._calls
        for draw in draws.made:
            origin = draw.source, draw.optional
            branch = calls.get(key)
            if not isinstance(branch, DrawBranch) or (branch.source, branch.optional) != origin:
                branch = calls[key] = DrawBranch(*origin)
            calls, key = branch.then, draw.kind
        calls[key] = call

    def _kind_of(self, leaf: Any) -> Any:
        return kind_of(leaf)

    def traced_arguments(self) -> list[tuple[Any, Any]]:
        """Return the arguments of each kind for which it was traced, `TensorSpec` s in place of arrays.

        Those of its concrete functions count, too.
        """
        found = self._called_arguments()
        return found + [taken for taken, _ in self._concrete if taken not in found]

    def _called_arguments(self) -> list[tuple[Any, Any]]:
        found = []
        for structure, kinds, *_ in self._calls:
            leaves = [_of_kind(kind) for kind in kinds]
            if not any(leaf is _UNKNOWN for leaf in leaves):
                found.append((tuple(leaves), {}) if structure is None else structure.unflatten(leaves))
        return found

    def experimental_get_tracing_count(self) -> int:
        """Return for how many kinds of arguments it was traced; those of concrete functions count, too."""
        found = self._called_arguments()
        return len(self._calls) + sum(taken not in found for taken, _ in self._concrete)

    def note_concrete(
        self, made: ConcreteFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ConcreteFunction:
        """Note a concrete function by its arguments, the instance of a method included; there is one of each.

        Returns:
            The one that takes these arguments, which may have been made before.
        """
        types = jax.tree.map(type, (args, kwargs))  # 2 is not 2.0
        for taken, before in self._concrete:
            if taken == (args, kwargs) and jax.tree.map(type, taken) == types:
                return before
        self._concrete.append(((args, kwargs), made))
        return made

    def inner_arguments(self) -> list[tuple[Any, Any]]:
        """Return those of its calls while other functions were traced, likewise."""
        return list(self._inner.values())

    def _note_inner(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=is_leaf)
        specs = [as_spec(leaf) for leaf in leaves]
        if all(is_spec(each) or isinstance(each, _CONSTANTS) for each in specs[1:]):  # the first may be self
            key = structure, *(repr(each) if is_spec(each) else (type(each), id(each)) for each in specs)
            self._inner.setdefault(key, jax.tree.unflatten(structure, specs))

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        """Return for which arguments it was traced, a line for each kind."""
        name = getattr(self.python_function, "__name__", "function")
        lines = []
        for args, kwargs in self.traced_arguments():
            each = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
            lines.append(f"{name}({', '.join(each)})")
        return "\n".join(lines)

    def get_concrete_function(self, *specs: Any, **named: Any) -> ConcreteFunction:
        """Return the function with `TensorSpec` s of its arguments; by default its ``input_signature``.

        Arrays in their place stand for their shapes and dtypes, and other values for themselves.
        """
        return concrete(self, self, specs, named)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind a method: the instance becomes its first argument."""
        return self if instance is None else _Method(self, instance)


class _Method(functools.partial[Any]):
    """A function with the instance that is its first argument."""

    def get_concrete_function(self, *specs: Any, **named: Any) -> ConcreteFunction:
        """Return the method with `TensorSpec` s of its arguments, without the instance."""
        return concrete(self, self.func, specs, named)


def function(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function, once for each structure, shapes and dtypes of its arguments.

    Args:
        func: The function; None to decorate with options.
        options: ``input_signature``, the `TensorSpec` s of the arguments, for `tf.saved_model.save`; others
            (``jit_compile``, ``reduce_retracing``, …) are accepted for TensorFlow's programs.

    Returns:
        The function, compiled when it is called; without ``func`` a decorator.

    Source: ``tf.function``.

    Example:
        ```python
        @muster.function
        def add(x, y):
            return x + y

        assert float(add(np.float32(1), np.float32(2))) == 3
        ```
    """
    make = functools.partial(Function, input_signature=options.get("input_signature"))
    return make if func is None else make(func)


def _with_drawn(leaves: Sequence[Any], draws: Draws | None) -> Sequence[Any]:
    """Return flat arguments, and the arrays of the batches that a call draws behind them."""
    return leaves if draws is None else [*leaves, *draws.leaves()]


def as_traced(arguments: Any) -> Any:
    """Return arguments as they would be while the function is traced: JAX arrays in the place of NumPy's."""

    def convert(leaf: Any) -> Any:
        return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) and leaf.dtype.kind not in "OSU" else leaf

    return jax.tree.map(convert, arguments, is_leaf=is_leaf)


def kind_of(leaf: Any) -> Any:
    """Return the kind of an argument: a function is traced anew for each kind."""
    if is_array(leaf):
        return leaf.shape, leaf.dtype
    if isinstance(leaf, PerReplica):
        return PerReplica, leaf.data.shape, leaf.data.dtype, leaf.kind
    if isinstance(leaf, DistributedIterator | DistributedDataset):
        return type(leaf)
    if hasattr(leaf, "__next__"):
        raise TypeError(
            f"A function takes only iterators of distributed datasets, got {leaf!r}: pass "
            "iter(strategy.experimental_distribute_dataset(dataset))."
        )
    if (tracing_type := getattr(leaf, "__tf_tracing_type__", None)) is not None:
        return type(leaf), tracing_type(None)  # TensorFlow's protocol, with a context that nothing needs
    try:
        hash(leaf)
    except TypeError:
        return type(leaf), id(leaf)
    return type(leaf), leaf


def _of_kind(kind: Any) -> Any:
    """Return a `TensorSpec` or a constant of a kind of arguments; ``_UNKNOWN`` for others."""
    match kind:
        case (tuple() as shape, np.dtype() as dtype):
            return TensorSpec(shape, dtype)
        case (type() as cls, value) if isinstance(value, cls):
            return value
    return _UNKNOWN
