"""Calls of a user's function: compiled for many elements at a time if JAX can trace it, else in Python.

A function is traced on the shapes of one element, and vectorised over stacked elements with `jax.vmap`, so
that it keeps its per-element meaning. It runs in Python, one element at a time, if

- an element holds text or Python objects: then it is called once for many, where that gives the same
  (`RowsFunction`),
- tracing raises (NumPy functions, Python control flow on values, methods that tracers lack),
- tracing would freeze its effects: it uses random numbers of Python or NumPy, changes a Keras variable, or
  gives another program when traced again.

A traced function follows JAX's types: unless 64-bit types are enabled, int64 and float64 values that it
computes with become int32 and float32. Components that it returns unchanged keep their type.
"""

import logging
import random
import re
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from muster._errors import DatasetError
from muster._frontend import frontend
from muster._integers import first_out_of_range
from muster.data.pipeline._handles import Loaded, Stacked, unstacked
from muster.data.pipeline._names_now import users_function
from muster.data.pipeline._rows_function import RowsFunction
from muster.data.pipeline._spec import TensorSpec, as_element, common_spec, stack
from muster.data.pipeline._structure import flatten, flatten_as, form, map_leaves, rebuild

if TYPE_CHECKING:
    import jax
    from jax.extend import core as jax_core

_log = logging.getLogger(__name__)
_ATTEMPTS = 3  # to trace a function; another thread may draw random numbers meanwhile
_MAX_TRACES = 128
_MANY_TRACES = 32


class _NotTraceable(Exception):
    """The function must run in Python, for this reason."""

    def __init__(self, reason: str, surprising: bool = False):
        super().__init__(reason)
        self.surprising = surprising


class Trace:
    """A function traced for elements of one structure, with fixed shapes and types."""

    def __init__(self, function: Callable[..., Any], template: Any, specs: Sequence[TensorSpec]):
        """Trace `function`.

        Raises:
            _NotTraceable: It must run in Python.
        """
        program, self.template, self._read = _trace_twice(function, template, specs)
        inputs, outputs = program.jaxpr.invars, program.jaxpr.outvars
        # Outputs that are inputs are returned unchanged: no copy, and int64 stays int64.
        self._passed = [next((i for i, var in enumerate(inputs) if out is var), None) for out in outputs]
        self._computed = [k for k, source in enumerate(self._passed) if source is None]
        read = {id(var) for equation in program.jaxpr.eqns for var in equation.invars}
        self._used = [i for i, var in enumerate(inputs) if id(var) in read]
        self.specs = [
            TensorSpec(aval.shape, aval.dtype) if source is None else specs[source]
            for source, aval in zip(self._passed, program.out_avals, strict=True)
        ]
        self._limits = {
            i: np.iinfo(program.in_avals[i].dtype)
            for i in self._used
            if specs[i].dtype.kind in "iu" and program.in_avals[i].dtype != specs[i].dtype
        }
        self._one, self._many = _compiled(program, self._used, self._computed)
        self._width = 0
        self._device = _host_device()

    def is_current(self) -> bool:
        """Return whether the Keras variables that the function reads have the values that they had."""
        return all(variable.value is value for variable, value in self._read)

    def one(self, leaves: list[Any]) -> Any:
        """Apply the function to the leaves of one element."""
        results = self._call(self._one, [leaves[i] for i in self._used])
        return self._assemble(leaves, [result[()] for result in results])

    def many(self, columns: list[Any], count: int) -> Stacked:
        """Apply the function to `count` elements, whose leaves are stacked in `columns`."""
        if not self._used:
            single = self._call(self._one, [])
            return Stacked(self._assemble(columns, [np.stack([one] * count) for one in single]), count)
        width = self._bucket(count)
        arguments = [columns[i] for i in self._used]
        if width != count:
            arguments = [
                np.concatenate([array, np.broadcast_to(array[:1], (width - count, *array.shape[1:]))])
                for array in arguments
            ]
        results = self._call(self._many, arguments)
        return Stacked(self._assemble(columns, [result[:count] for result in results]), count)

    def _bucket(self, count: int) -> int:
        """Return the number of elements to compute: `count` or more, so that few sizes are compiled.

        The first `count` is taken for the batch size, to which a partial batch is filled up.
        """
        if not self._width:
            self._width = count
        if count <= self._width <= 8 * count:
            return self._width
        return 1 << (count - 1).bit_length()

    def _call(self, compiled: Callable[..., Any], arguments: list[Any]) -> list[np.ndarray[Any, Any]]:
        if not self._computed:
            return []
        for i, argument in zip(self._used, arguments, strict=True):
            if i in self._limits:
                _check_range(argument, self._limits[i])
        if self._device is not None:
            import jax

            arguments = jax.device_put(arguments, self._device)
        return [np.asarray(result) for result in compiled(*arguments)]

    def _assemble(self, leaves: list[Any], computed: list[Any]) -> Any:
        results = iter(computed)
        return rebuild(
            self.template, [next(results) if source is None else leaves[source] for source in self._passed]
        )


class MapFunction:
    """A user's function, which runs compiled or in Python; the log says which."""

    def __init__(self, function: Callable[..., Any], operation: str):
        """Wrap `function`.

        Args:
            function: Takes an element; the items of a tuple (not a named one) are its arguments.
            operation: ``map`` or ``filter``, for messages.

        Raises:
            TypeError: `function` is not callable.
        """
        self._function = users_function(operation, function)
        self._operation = operation
        self._name = f"{operation}({getattr(function, '__qualname__', type(function).__name__)})"
        self._traces: dict[Any, Trace] = {}
        self._traced_count = 0
        self._in_python = False
        self._rows = RowsFunction(self._result, self._name)
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        # What was traced and compiled is of no use in another process.
        return MapFunction, (self._function, self._operation)

    def apply(self, loaded: Loaded) -> Loaded:
        """Apply the function to the elements."""
        computed = self._rows.apply(loaded, lambda elements: [self._call(each) for each in elements])
        if computed is not None:
            return computed
        if isinstance(loaded, Stacked):
            leaves = flatten(loaded.columns)
            trace = self._trace(loaded.columns, [TensorSpec(a.shape[1:], a.dtype) for a in leaves])
            if trace is not None:
                return trace.many(leaves, loaded.size)
            return [self._call(element) for element in unstacked(loaded)]
        if len(loaded) > 1 and not self._in_python and _alike(loaded):
            return self.apply(Stacked(stack(loaded), len(loaded)))
        return [self._apply_one(element) for element in loaded]

    def output_spec(self, spec: Any) -> Any | None:
        """Return the spec of the function's result if it can be traced, else None.

        Args:
            spec: Spec of an element. A size that varies is traced with two sizes.
        """
        leaves = flatten(spec)
        if any(leaf.shape is None for leaf in leaves):
            return None
        if all(None not in leaf.shape for leaf in leaves):
            trace = self._trace(spec, leaves)
            return None if trace is None else rebuild(trace.template, trace.specs)
        try:
            with self._lock:
                first, second = (Trace(self._function, spec, _with_size(leaves, size)) for size in (2, 3))
        except _NotTraceable:
            return None
        specs = [common_spec(a, b) for a, b in zip(first.specs, second.specs, strict=True)]
        return None if any(leaf.shape is None for leaf in specs) else rebuild(first.template, specs)

    def _apply_one(self, element: Any) -> Any:
        leaves = flatten(element)
        if not all(isinstance(leaf, np.ndarray | np.generic) for leaf in leaves):
            self._trace(element, None)
            return self._call(element)
        trace = self._trace(element, [TensorSpec(leaf.shape, leaf.dtype) for leaf in leaves])
        return self._call(element) if trace is None else trace.one(leaves)

    def _call(self, element: Any) -> Any:
        return as_element(self._result(element))

    def _result(self, element: Any) -> Any:
        result = _parts(spread(self._function, element))
        if result is None:
            raise DatasetError(f"The function of {self._name} returned None. Does it lack a `return`?")
        return result

    def _trace(self, template: Any, specs: list[TensorSpec] | None) -> Trace | None:
        """Return the trace for elements like these, or None to call the function in Python."""
        if self._in_python:
            return None
        key = (form(template), *[(s.shape, s.dtype) for s in specs or ()])
        with self._lock:
            trace = self._traces.get(key)
            if trace is None or not trace.is_current():
                try:
                    if trace is not None:
                        raise _NotTraceable("it reads Keras variables that change")
                    if specs is None:
                        raise _NotTraceable("an element holds text or Python objects")
                    trace = Trace(self._function, template, specs)
                except _NotTraceable as exc:
                    self._in_python = True
                    level = logging.WARNING if exc.surprising else logging.INFO
                    _log.log(level, "%s runs in Python, element by element: %s.", self._name, exc)
                    return None
                self._remember(key, trace)
            return trace

    def _remember(self, key: Any, trace: Trace) -> None:
        if not self._traces:
            _log.info("%s runs compiled by JAX, many elements at a time.", self._name)
        self._traces[key] = trace
        self._traced_count += 1
        if self._traced_count == _MANY_TRACES:
            _log.warning(
                "%s has been compiled for %d different shapes of elements, which is slow. "
                "Give elements one shape, for example with padded_batch(padded_shapes=...).",
                self._name,
                _MANY_TRACES,
            )
        if len(self._traces) > _MAX_TRACES:
            del self._traces[next(iter(self._traces))]


def spread(function: Callable[..., Any], element: Any) -> Any:
    """Call a function with an element; the items of a tuple (not a named one) are its arguments."""
    before, _thread.in_function = _thread.in_function, True
    try:
        if (shown := frontend().argument) is not None:
            element = shown(element)
        return function(*element) if type(element) is tuple else function(element)
    finally:
        _thread.in_function = before


def _parts(result: Any) -> Any:
    """Return a function's result: a list with arrays in it, which may be of unlike shapes, as a tuple.

    A list of Python's numbers or texts stays one array.

    Source: tensorflow/python/data/ops/structured_function.py, ``StructuredFunctionWrapper``.
    """
    in_parts = isinstance(result, list) and any(hasattr(part, "shape") for part in result)
    return tuple(result) if in_parts else result


class _MapThread(threading.local):
    in_function = False


_thread = _MapThread()


def in_dataset_function() -> bool:
    """Return whether this thread is in a user's function of a dataset, which works on single elements."""
    return _thread.in_function


def _alike(elements: list[Any]) -> bool:
    """Return whether elements are arrays or NumPy scalars of the same structure, shapes and types."""
    first = flatten(elements[0])
    if not all(isinstance(leaf, np.ndarray | np.generic) for leaf in first):
        return False
    for element in elements[1:]:
        for a, b in zip(first, flatten_as(elements[0], element), strict=True):
            if not isinstance(b, np.ndarray | np.generic) or a.shape != b.shape or a.dtype != b.dtype:
                return False
    return True


def _with_size(specs: list[TensorSpec], size: int) -> list[TensorSpec]:
    return [
        TensorSpec([size if known is None else known for known in spec.shape or ()], spec.dtype)
        for spec in specs
    ]


def _compiled(
    program: "jax_core.ClosedJaxpr", used: Sequence[int], computed: Sequence[int]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compile a program from its `used` inputs to its `computed` outputs, for one element and for many."""
    import jax
    from jax.extend.core import jaxpr_as_fun

    run = jaxpr_as_fun(program)

    def compute(*arguments: Any) -> list[Any]:
        values = dict(zip(used, arguments, strict=True))
        everything = [
            values[i] if i in values else jax.numpy.zeros(aval.shape, aval.dtype)
            for i, aval in enumerate(program.in_avals)
        ]
        outputs = run(*everything)
        return [outputs[k] for k in computed]

    return jax.jit(compute), jax.jit(jax.vmap(compute))


def _trace_twice(
    function: Callable[..., Any], template: Any, specs: Sequence[TensorSpec]
) -> tuple["jax_core.ClosedJaxpr", Any, list[tuple[Any, Any]]]:
    """Trace `function`, and check that it gives the same program when traced again.

    Returns:
        The program, from leaves to leaves; the structure of the function's result; the Keras variables that
        it reads, with their values.

    Raises:
        _NotTraceable: It must run in Python.
    """
    import jax  # slow, and needed only here

    if any(spec.dtype.kind not in "biufcV" or spec.dtype.names for spec in specs):
        raise _NotTraceable("an element holds text or Python objects")
    found: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        result = _parts(spread(function, rebuild(template, leaves)))
        if result is None:
            raise _NotTraceable("it returns None")
        found.append(map_leaves(lambda leaf: 0, result))
        return [leaf if isinstance(leaf, jax.Array) else jax.numpy.asarray(leaf) for leaf in flatten(result)]

    shapes = [jax.ShapeDtypeStruct(spec.shape, jax.dtypes.canonicalize_dtype(spec.dtype)) for spec in specs]
    for _ in range(_ATTEMPTS):
        python_state, numpy_state = random.getstate(), np.random.get_state()
        found.clear()
        try:
            with _keras_scope() as scope:
                # Two function objects, because JAX caches the program of a function.
                programs = [jax.make_jaxpr(partial(flat))(*shapes) for _ in range(2)]
        except Exception as exc:  # any error: in Python, the function succeeds or raises it again
            raise _NotTraceable(f"JAX cannot trace it ({type(exc).__name__}: {_first_line(exc)})") from exc
        finally:
            drew = random.getstate() != python_state or not _same_state(np.random.get_state(), numpy_state)
            random.setstate(python_state)
            np.random.set_state(numpy_state)
        if not drew:  # else it draws, or another thread has drawn meanwhile
            break
    else:
        raise _NotTraceable("it uses random numbers of Python or NumPy", surprising=True)
    if scope is not None and scope.state_mapping:
        raise _NotTraceable("it changes Keras variables", surprising=True)
    if not _same_program(*programs):
        raise _NotTraceable("tracing it twice gave two different programs", surprising=True)
    if not flatten(found[0]):
        raise _NotTraceable("it returns nothing")
    read = {} if scope is None else scope.read
    return programs[0], found[0], [(variable, variable.value) for variable in read.values()]


def _keras_scope() -> AbstractContextManager[Any]:
    """Return a scope that keeps tracers out of Keras variables, if Keras is imported.

    Its attribute ``read`` has the variables that are read in it, by their ``id``.
    """
    keras = sys.modules.get("keras")
    scope: AbstractContextManager[Any] = nullcontext() if keras is None else _noting_scope(keras)()
    return scope


@cache
def _noting_scope(keras: ModuleType) -> Any:
    """Return the class of such scopes."""

    class Scope(keras.StatelessScope):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.read: dict[int, Any] = {}

        def get_current_value(self, variable: Any) -> Any:
            self.read[id(variable)] = variable
            return super().get_current_value(variable)

    return Scope


def _same_program(first: "jax_core.ClosedJaxpr", second: "jax_core.ClosedJaxpr") -> bool:
    # Addresses of functions differ between traces.
    texts = [re.sub(r" at 0x[0-9a-f]+", "", str(program)) for program in (first, second)]
    return texts[0] == texts[1] and all(
        np.array_equal(np.asarray(a), np.asarray(b), equal_nan=np.asarray(a).dtype.kind in "fc")
        for a, b in zip(first.consts, second.consts, strict=True)
    )


def _same_state(first: Any, second: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def _host_device() -> "jax.Device | None":
    """Return the CPU, where input is computed, or None if it is JAX's default device."""
    import jax

    if jax.default_backend() == "cpu":
        return None
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS leaves the CPU out
        return None


def _check_range(values: np.ndarray[Any, Any], limits: "np.iinfo[Any]") -> None:
    """Check that numbers fit into a 32-bit type.

    Raises:
        DatasetError: One does not; names it.
    """
    wrong = first_out_of_range(values, limits)
    if wrong is not None:
        raise DatasetError(
            f"the map function computes with {wrong}, a number of type {wrong.dtype} that does not fit into "
            f"{limits.dtype}, which JAX uses in its place. Set jax_enable_x64, or compute this component "
            "with NumPy functions, which run in Python."
        )


def _first_line(exc: Exception) -> str:
    return next(iter(str(exc).strip().splitlines()), "")
