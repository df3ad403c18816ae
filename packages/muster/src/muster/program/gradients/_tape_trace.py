"""Intercept JAX's operations while a tape is open, and evaluate them as usual.

JAX hands each operation, also one on plain arrays, to the *current trace*. While a tape is open in a thread,
that is a `TapeTrace`: it evaluates operations as the trace before it does, so that all values stay what they
are, and shows them to the tapes' records. A function that is compiled (``jax.jit``, most of ``jax.numpy``) is
one operation, as a loop or a branch is.

Writing a trace is public in JAX 0.10 (``jax.core.Trace``, ``jax.extend.core.set_current_trace``), but its
interface is not documented. Tried on jax 0.10.2; ``tests/program/gradients/test_tape_trace.py`` fails when it
changes.
"""

import concurrent.futures
import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from muster.program.gradients._same_loops import compiled_loop
from muster.program.passes._jaxprs import scan_counts

Operation = Callable[..., Sequence[Any]]
"""Takes the operands, returns a list of results; may be called again, on tracers."""


class Record(Protocol):
    """A tape's record of operations."""

    def follows(self, values: Sequence[Any]) -> bool:
        """Return whether any of these values is watched, or was computed from one that is."""

    def note(self, operation: Operation, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Note an operation with such an operand."""


class TapeTrace(jax.core.Trace):
    """Evaluates operations as another trace does, and shows them to records.

    Args:
        outer: The trace that was current before; it evaluates.

    Attributes:
        records: Those of the open tapes.
    """

    __slots__ = ("outer", "records")

    def __init__(self, outer: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.outer = outer
        self.records: list[Record] = []

    def stage_value(self, val: Any) -> Any:
        return self.outer.stage_value(val)

    def cur_qdd(self, x: Any) -> Any:
        return self.outer.cur_qdd(x)

    def process_primitive(self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any], /) -> Any:
        body = params.get("jaxpr")
        if isinstance(body, jex.ClosedJaxpr) and self._captured_by(body):
            # What a compiled function has captured becomes visible if its operations come one by one.
            with jex.set_current_trace(self):
                if primitive.name == "jit":
                    return jex.jaxpr_as_fun(body)(*tracers)
                if primitive.name == "scan" and params["length"]:
                    return _round_by_round(jex.jaxpr_as_fun(body), tracers, params)
        followers = [record for record in self.records if record.follows(tracers)]
        if not followers:
            return self.outer.process_primitive(primitive, tracers, params)
        if any(params.get("donated_invars", ())):  # a gradient may need the arrays again
            params = {**params, "donated_invars": (False,) * len(params["donated_invars"])}
        if primitive.name != "jit" and (again := compiled_loop(primitive, params)) is not None:
            with jex.set_current_trace(self.outer):
                results = _fresh(again(*tracers), tracers)
            for record in followers:
                record.note(again, tracers, results)
            return results
        made = self.outer.process_primitive(primitive, tracers, params)
        results = _fresh(made if primitive.multiple_results else [made], tracers)
        if primitive.name != "stop_gradient":

            def again(*operands: Any) -> Sequence[Any]:
                made = primitive.bind(*operands, **params)
                return made if primitive.multiple_results else [made]

            for record in followers:
                record.note(again, tracers, results)
        return results if primitive.multiple_results else results[0]

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Sequence[Any], /, **options: Any
    ) -> Any:
        return self._retraced("process_custom_jvp_call", (primitive, fun, jvp), tracers, options)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Sequence[Any], /, **options: Any
    ) -> Any:
        return self._retraced("process_custom_vjp_call", (primitive, fun, fwd, bwd), tracers, options)

    def _retraced(
        self, method: str, functions: tuple[Any, ...], tracers: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        """Process a function with a derivative of its own.

        JAX hands it over as functions that may be called once, so it is traced first. What it has captured
        is constant, as it is for JAX.
        """

        def call(*values: Any) -> Any:
            with jex.take_current_trace() as tracing:
                return getattr(tracing, method)(*functions, values, **options)

        with jex.set_current_trace(self.outer):
            again = jex.jaxpr_as_fun(jax.make_jaxpr(call)(*tracers))
            results = again(*tracers)
        if followers := [record for record in self.records if record.follows(tracers)]:
            results = _fresh(results, tracers)
            for record in followers:
                record.note(again, tracers, results)
        return results

    def _captured_by(self, body: Any) -> bool:
        constants = _constants(body)
        return bool(constants) and any(record.follows(constants) for record in self.records)


def _round_by_round(body: Operation, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Compute what ``lax.scan`` does, one round after the other."""
    consts, carries = scan_counts(params)
    fixed, carry, rows = operands[:consts], operands[consts : consts + carries], operands[consts + carries :]
    steps = range(params["length"])
    made = []
    for i in reversed(steps) if params["reverse"] else steps:
        results = body(*fixed, *carry, *(each[i] for each in rows))
        carry = results[:carries]
        made.append(results[carries:])
    if params["reverse"]:
        made.reverse()
    return [*carry, *map(jnp.stack, zip(*made, strict=True))]


_known_constants: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def _constants(body: Any) -> list[Any]:
    """Return the arrays that a compiled function and those that it calls have captured."""
    found = _known_constants.get(body)
    if found is None:
        inner = [eqn.params.get("jaxpr") for eqn in body.jaxpr.eqns]
        found = [*body.consts]
        for each in inner:
            if isinstance(each, jex.ClosedJaxpr):
                found += _constants(each)
        _known_constants[body] = found
    return found


def _fresh(results: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Return results as objects of their own, where JAX has returned an operand, or one result twice."""
    known = set(map(id, operands))
    fresh = []
    for result in results:
        if id(result) in known:
            result = alias(result)
        known.add(id(result))
        fresh.append(result)
    return fresh


def alias(array: Any) -> Any:
    """Return another array object with the same data; a tracer, and what is no array, itself."""
    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        return array
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return array
    shards = [shard.data for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(array.shape, array.sharding, shards)


class _Thread(threading.local):
    """The trace of the open tapes of a thread; it stays for the next ones, as JAX caches by it."""

    def __init__(self) -> None:
        self.usual: TapeTrace | None = None
        self.open: list[TapeTrace] = []


_thread = _Thread()


def open_records() -> list[Record]:
    """Return the records of all open tapes of this thread."""
    return [record for trace in _thread.open for record in trace.records]


def is_tape_open() -> bool:
    """Return whether a tape of this thread notes operations of eager code."""
    return any(trace.records for trace in _thread.open)


def is_tracing() -> bool:
    """Return whether JAX traces operations in this thread, rather than to compute at once."""
    with jex.take_current_trace() as current:
        pass
    while isinstance(current, TapeTrace):
        current = current.outer
    return type(current).__name__ != "EvalTrace"


def computing() -> contextlib.AbstractContextManager[None]:
    """Compute at once in a ``with`` block, whatever is traced around it."""
    return jex.set_current_trace(_evaluating())


@functools.cache
def _evaluating() -> Any:
    """Return the trace that evaluates operations, which is the first one of every thread."""

    def current() -> Any:
        with jex.take_current_trace() as first:
            return first

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(current).result()


def show_to(record: Record) -> TapeTrace:
    """Show operations of this thread to a record from now on; `hide_from` ends it."""
    with jex.take_current_trace() as current:
        pass
    if isinstance(current, TapeTrace):
        trace = current
    else:
        trace = _trace_over(current)
        _thread.open.append(trace)
        _make_current(trace)
    trace.records.append(record)
    return trace


def hide_from(record: Record, trace: TapeTrace) -> None:
    """Show no more operations to a record."""
    trace.records = [each for each in trace.records if each is not record]
    if not trace.records and trace in _thread.open:
        _thread.open.remove(trace)
        with jex.take_current_trace() as current:
            pass
        if current is trace:
            _make_current(trace.outer)


def _trace_over(current: Any) -> TapeTrace:
    if _thread.usual is None:
        _thread.usual = TapeTrace(current)
    elif _thread.usual.outer is not current or _thread.usual.records:
        return TapeTrace(current)
    return _thread.usual


def _make_current(trace: Any) -> None:
    """Let a trace be the current one until further notice, rather than in a ``with`` statement."""
    jex.set_current_trace(trace).__enter__()
