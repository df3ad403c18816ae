"""A scheduled function, traced for arguments of one kind, and for batches of some kinds, into programs."""

import contextvars
import functools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from muster._arrays import dtype_named
from muster.data import GetNext, Optional
from muster.distribute import closures as messages
from muster.distribute.closures import ArrayKind
from muster.distribute.coordinator._per_worker import PerWorkerIterator, kind_with
from muster.distribute.coordinator._programs import ShippedProgram, Variables, program_of
from muster.distribute.engine._limits import Limits
from muster.distribute.functions._draws import DrawnBatch, Kind
from muster.distribute.functions._traced_function import TracedIterator, replaced, traced_function
from muster.distribute.replicas._values import is_array, is_leaf
from muster.program.variables import shared_with_step, sharing
from muster.ps import Array

# The arrays of each batch that a closure draws; None for the end of an iterator.
Batches = tuple[tuple[ArrayKind, ...] | None, ...]

# Functions that are traced at the same time may use the same layers.
_tracing = threading.RLock()
_WORKER_INDEX = "index of the worker"


def experimental_get_current_worker_index() -> Any:
    """Return the index of the worker that runs this, in a function that is scheduled.

    Raises:
        RuntimeError: It is called elsewhere.

    Source: tensorflow/python/distribute/coordinator/coordinator_context.py,
        ``experimental_get_current_worker_index``.
    """
    index = shared_with_step(_WORKER_INDEX)
    if index is None:
        raise RuntimeError(
            "Cannot retrieve the worker index. `get_worker_idx_and_num_workers` should be called from within "
            "a tf.function being executed on workers: in a function given to ClusterCoordinator.schedule."
        )
    return index


class TracedClosure:
    """A function for arguments of one kind: of the same structure, shapes, dtypes and constants.

    Args:
        name: The name of the function, for messages.
        function: The Python function.
        leaves: Flat arguments of the first call.
        structure: Their structure, of ``(args, kwargs)``.
        variables: Where variables are.
        servers: The number of parameter servers.

    Attributes:
        program: The program that probably fits the next closure.
        secs: How long the last one took on its worker, in seconds; infinite until one has run.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        leaves: Sequence[Any],
        structure: PyTreeDef,
        variables: Variables | None,
        servers: int,
    ) -> None:
        self.secs = math.inf
        self._name = name
        self._variables, self._servers = variables, servers
        self._context = contextvars.copy_context()
        self._function = functools.partial(_with_index, function)
        sources = {each: _Source(each) for each in leaves if isinstance(each, PerWorkerIterator)}
        # Arrays and iterators are needed for their kinds alone.
        examples = [_example(leaf) if is_array(leaf) else leaf for leaf in replaced(leaves, sources)]
        args, kwargs = structure.unflatten(examples)
        self._leaves, self._structure = jax.tree.flatten(((np.int32(0), args, kwargs), {}), is_leaf=is_leaf)
        arrays = [np.asarray(leaf) for leaf in leaves if is_array(leaf)]
        self._limits = Limits(arrays)
        self._dtypes = [jax.dtypes.canonicalize_dtype(array.dtype) for array in arrays]
        self._programs: dict[Batches, ShippedProgram] = {}
        with _tracing:
            try:
                # What was right for the last closure, and probably is for the next.
                self.program = self._traced(())
            except Exception as exc:
                exc.add_note(
                    f"muster traced the function {name!r}, which was given to `schedule`: workers run the "
                    "program that comes of it, and no Python."
                )
                raise

    def flat_arrays(self, leaves: Sequence[Any]) -> list[Array]:
        """Return copies of the arrays among arguments, flat, in the dtypes that JAX computes in.

        Raises:
            DatasetError: A number is out of their range.
        """
        if not self._dtypes:
            return []
        arrays = [np.asarray(leaf) for leaf in leaves if is_array(leaf)]
        if self._limits.exist:
            self._limits.check(arrays, arrays)
        return [each.astype(dtype).reshape(-1) for each, dtype in zip(arrays, self._dtypes, strict=True)]

    @property
    def draws(self) -> tuple[messages.ClosureDraw, ...]:
        """The batches that a closure probably draws: those of the program that draws the most."""
        return max([self.program, *self._programs.values()], key=lambda each: len(each.draws)).draws

    def for_batches(self, batches: Batches) -> ShippedProgram:
        """Return the program for what a closure has drawn first; it may draw more."""
        with _tracing:
            program = self._programs.get(batches)
            if program is None:
                program = self._programs[batches] = self._context.run(self._traced, batches)
            self.program = program
            return program

    def _traced(self, batches: Batches) -> ShippedProgram:
        sources = dict.fromkeys(leaf for leaf in self._leaves if isinstance(leaf, _Source))
        draws = _KnownDraws([source.first for source in sources], batches)
        traced = {source: TracedIterator(draws, number) for number, source in enumerate(sources)}
        program, _ = traced_function(self._function, self._leaves, self._structure, draws, traced)
        shapes = [_shape_of(leaf) for leaf in self._leaves if is_array(leaf)]
        return program_of(self._name, program, shapes, draws.made, self._variables, self._servers)


class _Source(GetNext):
    """Stands for an iterator, of which it keeps nothing but what its elements are like.

    Args:
        iterator: The iterator.
    """

    def __init__(self, iterator: PerWorkerIterator) -> None:
        self.first = iterator.dataset.first_kind()

    def __next__(self) -> Any:
        raise NotImplementedError


class _KnownDraws:
    """Draws batches of known kinds for a function that is recorded, and then of those that are probable.

    Args:
        first: What the elements of each iterator are probably like.
        known: The arrays of the first batches.
    """

    def __init__(self, first: Sequence[Kind], known: Batches) -> None:
        self._first = first
        self._known = known
        self.made: list[DrawnBatch] = []

    def record(self) -> None:
        self.made = []

    def draw(self, source: int, optional: bool) -> DrawnBatch:
        first, number = self._first[source], len(self.made)
        kind: Kind | None = None
        if number >= len(self._known):
            kind = first
        elif (arrays := self._known[number]) is not None:
            kind = kind_with(first.structure, arrays)
        begin = sum(0 if draw.kind is None else len(draw.kind.arrays) for draw in self.made)
        self.made.append(DrawnBatch(source, optional, Optional(), kind, [], begin))
        return self.made[-1]

    def end_recording(self) -> None:
        """Nothing was drawn."""


def _with_index(function: Callable[..., Any], index: jax.Array, args: Any, kwargs: Mapping[str, Any]) -> Any:
    with sharing(_WORKER_INDEX, index):
        return function(*args, **kwargs)


def _example(array: Any) -> Any:
    """Return an array of the same shape and dtype that takes no memory."""
    return np.broadcast_to(np.zeros((), dtype_named(str(array.dtype))), array.shape)


def _shape_of(array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, jax.dtypes.canonicalize_dtype(array.dtype))
