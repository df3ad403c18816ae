"""Programs for workers: a traced function, divided between a worker and servers, and exported."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import jax
import jax.export
import msgspec
import numpy as np
from jax.extend import core as jex

from muster import cpu
from muster._errors import TraceError
from muster.distribute.closures import ArrayKind, ClosureDraw, ClosureProgram
from muster.distribute.coordinator._stored_functions import StoredFunctions
from muster.distribute.coordinator._worker_parts import Part, worker_parts
from muster.distribute.engine._stored_tables import nbytes_of, row_lookups
from muster.distribute.engine._variable_layout import HashedColumn, StoredRows, VariableLayout
from muster.distribute.functions import _draws as drawn
from muster.distribute.functions._traced_function import ValueLayout
from muster.program.passes import (
    LookupStep,
    NotByRowsError,
    WorkerServerSplit,
    split_at_pushes,
    with_given_numbers,
)
from muster.program.trace import FunctionProgram
from muster.program.variables import VariableKind, like_value_of
from muster.program.variables.keras_internals import value_of
from muster.ps import Servers

# A variable of which rows are looked up travels as a whole, if it must, up to this size.
_LARGEST_WHOLE_BYTES = 256 << 20
# What exported functions cannot do: they would run this process' Python.
_CALLBACKS = ("pure_callback", "io_callback", "debug_callback", "debug_print")


class Variables(Protocol):
    """The locations of a strategy's variables.

    Attributes:
        assigned: How often the coordinator has set variables or created some.
    """

    assigned: int

    def rows_of(self, variable: Any, /) -> Sequence[StoredRows]:
        """Return where the rows of a variable are, in order; nothing if they are on no server."""

    def columns_of(self, variable: Any, /) -> Sequence[Any]:
        """Return a hashed table's variable and those of its slots, in order; nothing for other variables."""

    def store(self) -> AbstractContextManager[Servers]:
        """Lend the servers to this thread."""


class ShippedProgram:
    """A program, as workers get it.

    Args:
        name: The name of the function, for messages.
        parts: What the worker computes, by the name of the field of ``ClosureProgram``, and the shapes and
            dtypes of the arguments.
        program: The rest of the program.
        finish: Makes the result of its arrays.
        own: The name and the first value of each variable that a worker keeps for itself.

    Attributes:
        own: The name and the first value of each variable that a worker keeps for itself.
    """

    def __init__(
        self,
        name: str,
        parts: Mapping[str, Part],
        program: ClosureProgram,
        finish: Callable[[Sequence[Any]], Any],
        own: Sequence[tuple[str, np.ndarray[Any, Any]]],
    ) -> None:
        self._function_name = name
        self._parts = parts
        self._program = program
        self._finish = finish
        self._encoded: dict[str, tuple[str, bytes]] = {}
        self.own = own

    @property
    def results(self) -> tuple[ArrayKind, ...]:
        """The arrays of the results."""
        return self._program.results

    @property
    def draws(self) -> tuple[ClosureDraw, ...]:
        """The batches that it draws, in order."""
        return self._program.draws

    def finish(self, arrays: Sequence[Any]) -> Any:
        """Return the result, of its flat arrays."""
        kinds = self._program.results
        return self._finish([array.reshape(kind.shape) for array, kind in zip(arrays, kinds, strict=True)])

    def encoded(self, platform: str) -> tuple[str, bytes]:
        """Return the program for a platform, with its name: its fingerprint.

        Raises:
            TraceError: The function cannot be exported.
        """
        if (known := self._encoded.get(platform)) is not None:
            return known
        try:
            parts: dict[str, bytes] = {}
            with cpu.exported_for_this_job():
                for part, (compute, shapes) in self._parts.items():
                    export = jax.export.export(jax.jit(compute, keep_unused=True), platforms=(platform,))
                    parts[part] = bytes(export(*shapes).serialize())
        except (NotImplementedError, ValueError) as exc:
            raise TraceError(
                f"The function {self._function_name!r} cannot be scheduled, since JAX cannot export it for "
                f"{platform}: {exc}"
            ) from exc
        encoded = msgspec.msgpack.encode(msgspec.structs.replace(self._program, **parts))
        made = self._encoded[platform] = hashlib.sha256(encoded).hexdigest(), encoded
        return made


def program_of(
    name: str,
    traced: FunctionProgram[ValueLayout],
    arguments: Sequence[jax.ShapeDtypeStruct],
    draws: Sequence[drawn.DrawnBatch],
    variables: Variables | None,
    servers: int,
) -> ShippedProgram:
    """Make the program of a traced function.

    Args:
        name: The name of the function, for messages.
        traced: The function; the worker's index is the first of its arguments.
        arguments: The arrays of its arguments.
        draws: The batches that it draws.
        variables: Where variables are.
        servers: The number of parameter servers.

    Raises:
        TraceError: It cannot run on workers.
    """
    batches = [
        jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))
        for draw in draws
        if draw.kind is not None
        for shape, dtype, _ in draw.kind.arrays
    ]
    batch = [*arguments, *batches]
    state = {spec.path: jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in traced.variables}
    own = {spec.path: variable for spec, variable in traced.used if spec.kind is VariableKind.SEED}
    placed = {spec.path: _rows_of(name, v, variables) for spec, v in traced.used if spec.path not in own}
    hashed = _hashed(traced, variables)
    try:
        numbered = with_given_numbers(traced.step, state, batch, list(own)) if hashed else None
        step = traced.step if numbered is None else numbered.function
        given = [*batch, *(numbered.numbers.values() if numbered else ())]
        served = split_at_pushes(
            lambda values, arrays: step(values, arrays), state, given, list(own), returns_updated=True
        )
        places = VariableLayout(state, placed, served.pushed, hashed)
        lookups = _stored_lookups(served, places, given)
    except TraceError as exc:
        raise TraceError(f"The function {name!r} cannot be scheduled: {exc}") from exc
    functions = StoredFunctions(served, lookups, places, given, servers)
    parts = worker_parts(functions, lookups, numbered, [state[path] for path in served.local], batch)
    program = ClosureProgram(
        compute=b"",
        tables=functions.tables,
        function=functions.name if any(functions.functions) else "",
        pushed=functions.pushed,
        own=tuple(_name_of(own[path]) for path in served.local),
        arguments=tuple(map(_kind_of, arguments[1:])),
        draws=tuple(ClosureDraw(each.source, each.optional, _arrays_of(each)) for each in draws),
        results=tuple(map(_kind_of, traced.outputs)),
    )
    made, shapes = parts["compute"]
    _refuse_callbacks(name, jax.make_jaxpr(made)(*shapes), bool(served.effects))
    if variables is not None and program.function:
        with variables.store() as store:
            store.register(functions.functions)
    first = [(_name_of(own[path]), np.asarray(value_of(own[path]))) for path in served.local]
    shipped = ShippedProgram(name, parts, program, traced.static.filled, first)
    shipped.encoded("cpu")  # what cannot be exported is refused where the function is scheduled
    return shipped


def _stored_lookups(step: WorkerServerSplit, places: VariableLayout, batch: Any) -> LookupStep | None:
    """Divide a step at its look-ups in variables that are so large that rows of them travel alone.

    Args:
        step: The step.
        places: Where variables are.
        batch: The shapes and dtypes of the arrays of the batch.

    Returns:
        The divided step; None if there is no such variable.

    Raises:
        TraceError: The step needs all rows of a variable that is too large for that.
    """
    lookups, refused = row_lookups(
        step, places.specs, places.placed, batch, lambda lookups, path: _apart(lookups, places, path)
    )
    for path, error in refused.items():
        if (nbytes := nbytes_of(places.specs[path])) > _LARGEST_WHOLE_BYTES:
            raise TraceError(
                f"{error} It has {nbytes >> 20} MiB, and at most {_LARGEST_WHOLE_BYTES >> 20} MiB of a "
                "variable travel to workers as a whole."
            ) from error
    return lookups


def _apart(lookups: LookupStep, places: VariableLayout, table: str) -> NotByRowsError | None:
    """Return an error if a server that holds rows of a table lacks those of its slots."""
    for stored in places.placed[table]:
        rows = places.rows(table, stored)
        for path in lookups.columns[table]:
            if places.name_of(path, rows) is None:
                return NotByRowsError(table, f"the same rows of {path} are on another server")
    if kept := [column.path for column in places.hashed.get(table, ())]:
        for path in lookups.columns[table]:
            if path not in kept:
                return NotByRowsError(table, f"{path} is no slot of it")
    return None


def _rows_of(name: str, variable: Any, variables: Variables | None) -> Sequence[StoredRows]:
    rows = () if variables is None else variables.rows_of(variable)
    if not rows:
        raise ValueError(
            f"The function {name!r} cannot be scheduled: it uses the variable {variable.path!r}, which is "
            "on no parameter server. Create it inside of `with strategy.scope():`."
        )
    return rows


def _hashed(
    traced: FunctionProgram[ValueLayout], variables: Variables | None
) -> dict[str, Sequence[HashedColumn]]:
    """Return what servers keep for each row of the hashed tables that a function uses, by their paths."""
    if variables is None:
        return {}
    paths = {id(variable): spec.path for spec, variable in traced.used}
    kept = {spec.path: variables.columns_of(variable) for spec, variable in traced.used}
    return {
        path: [
            HashedColumn(paths.get(id(each)), tuple(each.shape[1:]), str(like_value_of(each).dtype))
            for each in columns
        ]
        for path, columns in kept.items()
        if columns
    }


def _refuse_callbacks(name: str, closed: jex.ClosedJaxpr, has_effects: bool) -> None:
    found = _callback_in(closed.jaxpr)
    if found is not None or has_effects:
        raise TraceError(
            f"The function {name!r} cannot be scheduled: it calls back into this program's Python while it "
            f"runs, by {found or 'a print or the like'}, and workers have none of it. Do that in the "
            "functions of datasets, or return values, and work on them where they are fetched."
        )


def _callback_in(jaxpr: jex.Jaxpr) -> str | None:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _CALLBACKS:
            return str(eqn.primitive.name)
        for inner in jex.jaxprs_in_params(eqn.params):
            if (found := _callback_in(getattr(inner, "jaxpr", inner))) is not None:
                return found
    return None


def _name_of(variable: Any) -> str:
    return f"{variable.path}#{id(variable)}"


def _kind_of(array: Any) -> ArrayKind:
    return ArrayKind(tuple(array.shape), str(array.dtype))


def _arrays_of(draw: drawn.DrawnBatch) -> tuple[ArrayKind, ...] | None:
    if draw.kind is None:
        return None
    return tuple(ArrayKind(tuple(shape), str(dtype)) for shape, dtype, _ in draw.kind.arrays)
