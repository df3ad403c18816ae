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
from muster.distribute._compiled import State, Step
from muster.distribute._distributed_dataset import DistributedDataset, DistributedIterator
from muster.distribute._draws import Branch, Draws
from muster.distribute._limits import Limits
from muster.distribute._replica_context import current_context
from muster.distribute._traced_iterator import EagerIterator, TracedIterator
from muster.distribute._values import PerReplica, is_array, is_leaf
from muster.program import FunctionProgram, Replicas, current_scope, functions_run_eagerly, run_eagerly

Array = Any


@dataclass(frozen=True)
class Traced:
    """A function, traced for one kind of arguments.

    Attributes:
        program: takes and returns flat lists of arrays, per replica.
        takes: which of the arguments each replica has its own of; the others are the same everywhere.
        gives: likewise of the results.
    """

    program: FunctionProgram[Any]
    takes: tuple[bool, ...]
    gives: tuple[bool, ...]


def run_traced(traced: Traced, state: State, arrays: list[Array], replicas: Replicas) -> tuple[State, Any]:
    """Run a function as one replica, on arguments and to results that have a first axis of one replica."""
    given = [array[0] if own else array for array, own in zip(arrays, traced.takes, strict=True)]
    own_paths = traced.program.own
    state = {path: value[0] if path in own_paths else value for path, value in state.items()}
    state, results = traced.program.step(state, given, replicas=replicas)
    state = {path: value[None] if path in own_paths else value for path, value in state.items()}
    return state, [a[None] if own else a for a, own in zip(results, traced.gives, strict=True)]


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
        if kwargs or not all(isinstance(arg, _PLAIN) for arg in args):
            leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=is_leaf)
        kinds = tuple(map(_kind_of, leaves))
        key = (structure, kinds, current_context())
        if DistributedDataset in kinds:
            return self.python_function(*args, **kwargs)
        if DistributedIterator in kinds:
            return self._call_drawing(key, leaves)
        call = self._calls.get(key)
        if not isinstance(call, _Call):
            structure = jax.tree.structure((args, kwargs), is_leaf=is_leaf)
            call = self._calls[key] = _Call(self.python_function, leaves, structure)
        return call(leaves)

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
        return jax.tree.unflatten(results.structure, _filled(results.constants, arrays, results.per_replica))

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
        draws.record()
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

        def body(arrays: list[Array]) -> tuple[list[Array], _Results]:
            for iterator in iterators:
                iterator.begin(arrays[known:])
            filled = _filled(self._leaves, arrays[:known], self._per_replica)
            args, kwargs = jax.tree.unflatten(structure, filled)
            return _flattened(python_function(*args, **kwargs))

        example = [_shape_per_replica(leaf) for leaf in leaves if _is_dynamic(leaf)]
        program: FunctionProgram[_Results] = FunctionProgram(body, example)
        self._program, self._results = program, program.static
        self._strategy = program.strategy
        self._own = [(spec, variable) for spec, variable in program.used if spec.own]
        if self._strategy is not None:
            _require_replicas(leaves, self._strategy)
        draws.recorded()
        for iterator in iterators:
            iterator.recorded()
        traced = Traced(
            program,
            (*(own for own, _ in self._per_replica), *draws.per_replica),
            tuple(own for own, _ in self._results.per_replica),
        )
        self._step: Step = (
            alone(program) if self._strategy is None else self._strategy.compile_function(traced, {})
        )

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Call it with arguments of its kind, and after them what it draws."""
        arrays = [_data_of(leaf) for leaf in leaves if _is_dynamic(leaf)]
        before: State = self._program.state()
        state = before
        if self._strategy is not None:
            state = self._strategy.placement.placed(self._program.used, before)
            if self._own:
                state = state | self._strategy.placement.own(self._own, state)
        state, given = self._step(state, arrays)
        self._program.take(state)
        if self._own:
            self._strategy.placement.keep_own(self._own, before, state)
        results = self._results
        return jax.tree.unflatten(results.structure, _filled(results.constants, given, results.per_replica))


def _filled(
    constants: Sequence[Any], arrays: Sequence[Array], per_replica: Sequence[tuple[bool, bool]]
) -> list[Any]:
    """Values with arrays in the places that were left for them."""
    pairs = zip(arrays, per_replica, strict=True)
    values = iter([PerReplica(array, whole) if own else array for array, (own, whole) in pairs])
    return [next(values) if each is _ARRAY else each for each in constants]


def alone(program: FunctionProgram[Any]) -> Step:
    """Make the step of a function on one device, or of one that no strategy has a part in.

    Its variables and arguments may come to live elsewhere, as when a strategy trains a model that a function
    without a strategy uses as well; so JAX chooses what it compiled by where they are.
    """
    run: Step | None = None
    limits: Limits | None = None

    def step(state: State, arrays: Any) -> tuple[State, Any]:
        nonlocal run, limits
        limits = limits or Limits(arrays)
        limits.check(arrays, arrays)
        if run is None:
            cpu.keep_memory()
            options = cpu.compiler_options(jax.jit(program.step).lower(state, arrays).as_text())
            run = jax.jit(program.step, donate_argnums=0, compiler_options=options)
        return run(state, arrays)

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
    if isinstance(leaf, PerReplica):
        return PerReplica, leaf.data.shape, leaf.data.dtype, leaf.whole
    if is_array(leaf):
        return leaf.shape, leaf.dtype
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
