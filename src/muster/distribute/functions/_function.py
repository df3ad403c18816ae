"""`function`: user code that is called again and again, compiled for each kind of arguments."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster import cpu
from muster._errors import OutOfRangeError
from muster._keras import keras
from muster.distribute.engine._compiled import Step
from muster.distribute.engine._function_state import FunctionState
from muster.distribute.engine._limits import Limits
from muster.distribute.functions._draws import Branch, Draws
from muster.distribute.functions._traced_iterator import EagerIterator, TracedIterator
from muster.distribute.input._distributed_dataset import DistributedDataset, DistributedIterator
from muster.distribute.replicas._replica_context import current_context
from muster.distribute.replicas._values import PerReplica, is_array, is_leaf
from muster.program import FunctionProgram, Replicas, current_scope, functions_run_eagerly, run_eagerly

Array = Any


@dataclass(frozen=True)
class Traced:
    """A function, traced for one kind of arguments.

    As a step it is ``(state, (reads, arrays)) -> (state, results)``, all of them flat lists of arrays. The
    state that it is given has the values of ``variables.changes`` and ``variables.own``; the one that it
    returns has those of ``variables.combined`` as well.

    Attributes:
        program: takes and returns flat lists of arrays, per replica.
        variables: which it uses, and for what.
        takes: which of the arguments each replica has its own of; the others are the same everywhere.
        gives: likewise of the results.
    """

    program: FunctionProgram[Any]
    variables: FunctionState
    takes: tuple[bool, ...]
    gives: tuple[bool, ...]


def run_traced(traced: Traced, state: list[Array], batch: Any, replicas: Replicas | None) -> Any:
    """Run a function as one replica; what it has of its own has a first axis of one replica.

    Args:
        traced: what to run.
        state: as `Traced` says.
        batch: values of the variables that it only reads, and arguments.
        replicas: the copies that run beside this one; None if there are none, and nothing is their own.
    """
    variables = traced.variables
    reads, arrays = batch
    given = [array[0] if own else array for array, own in zip(arrays, traced.takes, strict=True)]
    shared = len(variables.changes)
    values = [*state[:shared], *reads, *[value[0] for value in state[shared:]]]
    paths = (*variables.changes, *variables.reads, *variables.own)
    after, results = traced.program.step(dict(zip(paths, values, strict=True)), given, replicas=replicas)
    own_values = [after[path][None] for path in variables.own]
    changed, combined = ([after[path] for path in paths] for paths in (variables.changes, variables.combined))
    results = [a[None] if own else a for a, own in zip(results, traced.gives, strict=True)]
    return [*changed, *own_values, *combined], results


@dataclass(frozen=True)
class _Results:
    """What a function returned, without its arrays.

    Attributes:
        structure: of all values.
        constants: the values that are no arrays; None stands for an array.
        per_replica: of each array, whether replicas have their own, and whether only the first one counts.
    """

    structure: Any
    constants: tuple[Any, ...]
    per_replica: tuple[tuple[bool, bool], ...]

    @property
    def nothing_else(self) -> bool:
        """Whether the values are its arrays, as they are."""
        return all(each is _ARRAY for each in self.constants) and not any(own for own, _ in self.per_replica)

    def filled(self, arrays: Sequence[Array]) -> Any:
        """What the function returned, with arrays."""
        return self.structure.unflatten(_filled(self.constants, arrays, self.per_replica))


_ARRAY = object()

# Arguments that are nothing but what they are, so that there is no structure to look into at every call.
_PLAIN = (np.ndarray, jax.Array, PerReplica)


class Function:
    """Calls a Python function as one compiled program.

    It is traced when it is first called with arguments of some structure, shapes and types, and for each new
    value of an argument that is no array. It may use Keras' variables, layers, metrics and optimizers that
    exist, ``GradientTape``, and ``run``, ``reduce`` and ``gather`` of a strategy.

    With a distributed dataset among its arguments it is an epoch's loop, and called as it is: ``run``,
    ``reduce`` and the functions that it calls are compiled, each by itself.

    Args:
        python_function: what to call.

    Source: tensorflow/python/eager/polymorphic_function/polymorphic_function.py, ``Function``.
    """

    def __init__(self, python_function: Callable[..., Any]) -> None:
        self.python_function = python_function
        self._calls: dict[Any, _Call | Branch] = {}
        functools.update_wrapper(self, python_function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it, or run its code if this is inside of a step already."""
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
        if isinstance(call, _Call):
            return call(leaves)
        if DistributedDataset in kinds:
            return self.python_function(*args, **kwargs)
        if DistributedIterator in kinds:
            return self._call_drawing(key, leaves)
        structure = jax.tree.structure((args, kwargs), is_leaf=is_leaf)
        call = _Call(self.python_function, leaves, structure)
        results = call(leaves)  # traces it once more, to compile it; if that fails, the next call begins anew
        self._calls[key] = call
        return results

    def _call_eagerly(self, args: Any, kwargs: Any) -> Any:
        """Run its code on numbers."""
        leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=is_leaf)
        if any(isinstance(leaf, DistributedDataset) for leaf in leaves):
            return self.python_function(*args, **kwargs)
        iterators = {source: EagerIterator(source) for source in _sources(leaves)}
        leaves = [iterators[leaf] if isinstance(leaf, DistributedIterator) else leaf for leaf in leaves]
        constants = [_constant_of(leaf) for leaf in leaves]
        dynamic = [leaf for leaf in leaves if _is_dynamic(leaf)]
        own = [(isinstance(leaf, PerReplica), getattr(leaf, "whole", False)) for leaf in dynamic]

        def run(*arrays: Array) -> Any:
            given = [each.begin() if isinstance(each, EagerIterator) else each for each in constants]
            args, kwargs = jax.tree.unflatten(structure, _filled(given, arrays, own))
            return _flattened(self.python_function(*args, **kwargs))

        try:
            arrays, results = run_eagerly(run, [jnp.asarray(_data_of(leaf)) for leaf in dynamic])
        except OutOfRangeError:
            for iterator in iterators.values():
                iterator.give_back()
            raise
        return results.filled(arrays)

    def _call_drawing(self, key: Any, leaves: Sequence[Any]) -> Any:
        """Call it with the next batches of the iterators among its arguments.

        What it draws next may depend on what it has drawn: so the way to a compiled call is a tree.
        """
        sources = _sources(leaves)
        key = (*key, tuple(sources.index(leaf) for leaf in leaves if isinstance(leaf, DistributedIterator)))
        draws = Draws(sources)
        try:
            call = self._calls.get(key)
            while isinstance(call, Branch):
                call = call.then.get(draws.draw(call.place, call.asks).kind)
            if call is None:
                call = _Call(self.python_function, leaves, key[0], draws)
                results = call([*leaves, *draws.leaves()])  # traces it once more, to compile it
                self._keep(key, draws, call)
                return results
        except BaseException:  # nothing has changed
            draws.give_back()
            raise
        return call([*leaves, *draws.leaves()])

    def _keep(self, key: Any, draws: Draws, call: "_Call") -> None:
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
        func: the function; None to decorate with options.
        options: those of TensorFlow (``jit_compile``, ``reduce_retracing``, ``input_signature``, …) are
            accepted; everything is compiled, once for each kind of arguments.

    Source: ``tf.function``.
    """
    return Function if func is None else Function(func)


class _Call:
    """A function for arguments of one kind.

    Args:
        python_function: what to call.
        leaves: the arguments of the first call.
        structure: of the arguments.
        draws: from the iterators among them, the batches that the function seems to take; it takes more, or
            gives some back.
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        leaves: Sequence[Any],
        structure: Any,
        draws: Draws | None = None,
    ) -> None:
        draws = draws or Draws([])
        recording: Draws | None = draws
        places = {source: place for place, source in enumerate(_sources(leaves))}
        iterators = [TracedIterator(draws, place) for place in places.values()]
        self._leaves = [
            iterators[places[leaf]] if isinstance(leaf, DistributedIterator) else _constant_of(leaf)
            for leaf in leaves
        ]
        self._per_replica = [
            (isinstance(leaf, PerReplica), isinstance(leaf, PerReplica) and leaf.whole)
            for leaf in leaves
            if _is_dynamic(leaf)
        ]

        known = len(self._per_replica)
        self._only_arrays = not places and all(map(is_array, leaves))

        def body(arrays: list[Array]) -> tuple[list[Array], _Results]:
            if recording is not None:
                recording.record()
            for iterator in iterators:
                iterator.begin(arrays[known:])
            filled = _filled(self._leaves, arrays[:known], self._per_replica)
            args, kwargs = jax.tree.unflatten(structure, filled)
            return _flattened(python_function(*args, **kwargs))

        example = [_shape_per_replica(leaf) for leaf in leaves if _is_dynamic(leaf)]
        program: FunctionProgram[_Results] = FunctionProgram(body, example)
        results = program.static
        self._finish = results.structure.unflatten if results.nothing_else else results.filled
        strategy = program.strategy
        if strategy is not None:
            _require_replicas(leaves, strategy)
        draws.recorded()
        recording = None
        for iterator in iterators:
            iterator.recorded()
        self._state = FunctionState(program, strategy)
        traced = Traced(
            program,
            self._state,
            takes=(*(own for own, _ in self._per_replica), *draws.per_replica),
            gives=tuple(own for own, _ in results.per_replica),
        )
        self._step = alone(traced) if strategy is None else strategy.compile_function(traced, {})
        self._state.place_new(program.created)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Call it with arguments of its kind, and after them what it draws."""
        arrays = [*leaves] if self._only_arrays else [_data_of(leaf) for leaf in leaves if _is_dynamic(leaf)]
        state, reads = self._state.take()
        state, results = self._step(state, (reads, arrays))
        self._state.give(state)
        return self._finish(results)


def _filled(
    constants: Sequence[Any], arrays: Sequence[Array], per_replica: Sequence[tuple[bool, bool]]
) -> list[Any]:
    """Values with arrays in the places that were left for them."""
    pairs = zip(arrays, per_replica, strict=True)
    values = iter([PerReplica(array, whole) if own else array for array, (own, whole) in pairs])
    return [next(values) if each is _ARRAY else each for each in constants]


def alone(traced: Traced) -> Step:
    """Make the step of a function on one device, or of one that no strategy has a part in.

    Its variables and arguments may come to live elsewhere, as when a strategy trains a model that a function
    without a strategy uses as well; so JAX chooses what it compiled by where they are.
    """
    run: Step | None = None
    limits: Limits | None = None

    def function(state: list[Array], batch: Any) -> Any:
        return run_traced(traced, state, batch, None)

    def step(state: list[Array], batch: Any) -> Any:
        nonlocal run, limits
        if limits is None:
            limits = Limits(batch[1])
        if limits.exist:
            limits.check(batch[1], batch[1])
        if run is None:
            cpu.keep_memory()
            options = cpu.compiler_options(jax.jit(function).lower(state, batch).as_text())
            run = jax.jit(function, donate_argnums=0, compiler_options=options)
        return run(state, batch)

    return step


def _flattened(returned: Any) -> tuple[list[Array], _Results]:
    scope = current_scope()
    leaves, structure = jax.tree.flatten(returned, is_leaf=is_leaf)
    arrays, constants, per_replica = [], [], []
    for leaf in leaves:
        if isinstance(leaf, keras.Variable) and scope is not None:
            leaf = scope.read(leaf)
        if isinstance(leaf, bool | int | float | complex) or is_array(leaf):
            leaf = jnp.asarray(leaf)
        if _is_dynamic(leaf):
            arrays.append(_data_of(leaf))
            own = isinstance(leaf, PerReplica)
            per_replica.append((own, own and leaf.whole))
            leaf = _ARRAY
        constants.append(leaf)
    return arrays, _Results(structure, tuple(constants), tuple(per_replica))


def _require_replicas(leaves: Sequence[Any], strategy: Any) -> None:
    """Check that values of replicas are those of a strategy's.

    Raises:
        ValueError: One has a value for more or fewer replicas.
    """
    for leaf in leaves:
        if isinstance(leaf, PerReplica):
            here = getattr(leaf.data, "is_fully_addressable", True)
            expected = strategy.local_replicas if here else strategy.num_replicas_in_sync
            if len(leaf.data) != expected:
                raise ValueError(
                    f"A value of {len(leaf.data)} replicas was given to {strategy}, which has {expected}: it "
                    "comes from another strategy."
                )


def _sources(leaves: Sequence[Any]) -> list[DistributedIterator]:
    """The iterators among some arguments, each once."""
    return list(dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, DistributedIterator)))


def _constant_of(leaf: Any) -> Any:
    return _ARRAY if _is_dynamic(leaf) else leaf


def _is_dynamic(leaf: Any) -> bool:
    return isinstance(leaf, PerReplica) or is_array(leaf)


def _data_of(leaf: Any) -> Array:
    return leaf.data if isinstance(leaf, PerReplica) else leaf


def _shape_per_replica(leaf: Any) -> jax.ShapeDtypeStruct:
    array = _data_of(leaf)
    shape = array.shape[1:] if isinstance(leaf, PerReplica) else array.shape
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(array.dtype, allow_extended_dtype=True))


def _kind_of(leaf: Any) -> Any:
    """What tells arguments apart for which a function is traced anew."""
    if is_array(leaf):
        return leaf.shape, leaf.dtype
    if isinstance(leaf, PerReplica):
        return PerReplica, leaf.data.shape, leaf.data.dtype, leaf.whole
    if isinstance(leaf, DistributedIterator | DistributedDataset):
        return type(leaf)
    if hasattr(leaf, "__next__"):
        raise TypeError(
            f"A function takes only iterators of distributed datasets, got {leaf!r}: give it "
            "iter(strategy.experimental_distribute_dataset(dataset))."
        )
    try:
        hash(leaf)
    except TypeError:
        return type(leaf), id(leaf)
    return type(leaf), leaf
