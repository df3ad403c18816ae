"""Values of a store on JAX's device, and exported functions that read and change them."""

import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from muster._arrays import dtype_named
from muster.ps._array_spec import ArraySpec
from muster.ps._flat_layout import Array, Flat, FlatLayout
from muster.ps._memory import memory_bytes
from muster.ps.contents._row_uses import column_of
from muster.ps.contents._stored import StoredFunction, TableUse
from muster.ps.tables import Column, RowBuffers

_Values = Mapping[str, jax.Array]


def versions() -> dict[str, str]:
    """Return the versions that a server and its workers must share to understand an exported update."""
    return {"jax": jax.__version__}


class JaxDevice:
    """JAX's default device: the `Device` of a server's contents."""

    def check(self, specs: Sequence[ArraySpec], held: int) -> None:
        """Raise ValueError, with a clause, if it cannot hold arrays beside some bytes that it holds."""
        require_room("its arrays", specs, held)
        require_dtypes(specs)

    def put(self, array: Array) -> jax.Array:
        """Return a copy as a value."""
        value: jax.Array = jax.device_put(array.copy())  # JAX may keep memory that it can use in place
        return value

    def get(self, value: jax.Array) -> Array:
        """Return the array of a value, without a copy."""
        array: Array = np.asarray(value)
        return array

    def compile(
        self,
        function: StoredFunction,
        held: Mapping[str, ArraySpec],
        tables: Sequence[Sequence[Column]] = (),
    ) -> "JaxFunction":
        """Return a function of values that are held; raises ValueError with a clause about it."""
        return JaxFunction(function, held, tables)

    def make(self, function: bytes, spec: ArraySpec, first: int) -> Iterator[Array]:
        """Return the first rows of an array, some at a time; raises ValueError with a clause about it."""
        exported = deserialized(function)
        many = exported.in_avals[0].shape[0] if exported.in_avals and exported.in_avals[0].shape else 0
        if not isinstance(many, int) or many < 1:
            raise ValueError("its function does not make some rows at a time")
        rows = jax.ShapeDtypeStruct((many, *spec.shape[1:]), dtype_named(spec.dtype))
        numbers = jax.ShapeDtypeStruct(rows.shape, "uint32")
        require_same("the function of its first rows takes", exported.in_avals, [numbers] * 2, "that array")
        require_same("the function of its first rows returns", exported.out_avals, [rows], "that array")
        return _made_rows(jax.jit(exported.call), rows, spec.shape[0], first)


def _made_rows(
    make: Callable[..., Any], like: jax.ShapeDtypeStruct, rows: int, first: int
) -> Iterator[Array]:
    many, row = like.shape[0], math.prod(like.shape[1:])
    places = np.arange(many * row, dtype=np.uint64).reshape(like.shape)
    for start in range(0, rows, many):
        here = places + np.uint64((first + start) * row)
        high, low = (here >> np.uint64(32)).astype(np.uint32), here.astype(np.uint32)
        (made,) = jax.tree.leaves(make(high, low))
        yield np.asarray(made)[: rows - start]


class JaxFunction:
    """A function, compiled: its update, those of rows of its tables, and what workers take then, at once.

    What is returned to be sent is in flat buffers; an array that is flat, and alone in its dtype, is sent
    from where it is. Values are changed in place, unless somebody reads them,
    sends them without a copy or writes a snapshot: JAX donates no buffer that NumPy's arrays refer to.

    A function that updates rows is compiled for each combination of the numbers of rows that it gets.

    Args:
        function: The function.
        held: The arrays of the server, by name.
        tables: What each row of each of its tables has.

    Raises:
        ValueError: An update is none, or does not fit the arrays; the text is a clause.
    """

    def __init__(
        self,
        function: StoredFunction,
        held: Mapping[str, ArraySpec],
        tables: Sequence[Sequence[Column]] = (),
    ) -> None:
        self._uses = function.tables
        self._row_updates = [
            _row_update(use, columns, held) if use.update else None
            for use, columns in zip(function.tables, tables, strict=True)
        ]
        read = dict.fromkeys(name for use in function.tables for name in use.reads)
        self._read = tuple(read)
        self._updates = function.updates
        whole = dict.fromkeys((*function.whole, *read))
        self._others = tuple(name for name in whole if name not in function.updates)
        of_dtypes: dict[str, list[str]] = {}
        for name in function.takes:
            of_dtypes.setdefault(held[name].dtype, []).append(name)
        self._sent = {
            dtype: names[0]
            for dtype, names in of_dtypes.items()
            if len(names) == 1 and len(held[names[0]].shape) == 1
        }
        self._takes = tuple(name for name in function.takes if held[name].dtype not in self._sent)
        shapes = {name: _shape(held[name]) for name in whole}
        self._pull = None
        if self._takes:
            self._pull = _compile(self._taken, (), *(shapes[name] for name in self._takes))
        self._programs: dict[tuple[bool, tuple[int, ...]], Callable[..., Any]] = {}
        self._no_rows = RowBuffers([None for _ in self._uses], [0 for _ in self._uses])
        self._run = self._with_update(function, shapes) if function.changes else None

    def pull(self, values: _Values) -> Flat:
        """Return what workers take, of the values by name."""
        taken = {} if self._pull is None else self._pull(*(values[name] for name in self._takes))
        return self._on_host(values, taken)

    def apply(
        self,
        values: dict[str, Any],
        pushed: Flat,
        rows: RowBuffers | None = None,
        whole: Sequence[Sequence[Array]] = (),
    ) -> tuple[Flat, list[Sequence[Array]]]:
        """Replace the values that the update changes; return what workers take then, and new rows."""
        if self._run is None:
            return self.pull(values), [() for _ in self._uses]
        rows = rows or self._no_rows
        given = (
            [values[name] for name in self._updates],
            [values[name] for name in self._others],
            pushed,
            rows.flat,
            [*whole],
        )
        changed, taken, made = self._program(self._run, (0,), rows, given)(*given)
        values.update(zip(self._updates, changed, strict=True))
        new = _rows_on_host(rows, made)
        # What was pushed may be read in place, and lies where the next push will be received.
        for value in changed:
            value.block_until_ready()
        return self._on_host(values, taken), new

    def update_rows(
        self, values: _Values, rows: RowBuffers, whole: Sequence[Sequence[Array]]
    ) -> list[Sequence[Array]]:
        """Return new rows of tables, and change nothing else."""
        given = {name: values[name] for name in self._read}, rows.flat, [*whole]
        return _rows_on_host(rows, self._program(self._updated_rows, (), rows, given)(*given))

    def _program(
        self, function: Callable[..., Any], donated: tuple[int, ...], rows: RowBuffers, given: tuple[Any, ...]
    ) -> Callable[..., Any]:
        """Return one of the two functions, compiled for so many rows of each table."""
        key = bool(donated), rows.sizes
        if (known := self._programs.get(key)) is None:
            known = self._programs[key] = _compile(functools.partial(function, rows), donated, *given)
        return known

    def _on_host(self, values: _Values, taken: Mapping[str, jax.Array]) -> Flat:
        """Return flat buffers, without copies, in the order of the dtypes' names."""
        sent = {dtype: values[name] for dtype, name in self._sent.items()}
        return {dtype: np.asarray(array) for dtype, array in sorted({**sent, **taken}.items())}

    def _updated_rows(
        self,
        rows: RowBuffers,
        values: _Values,
        flat: Mapping[str, jax.Array],
        whole: Sequence[Sequence[jax.Array]],
    ) -> dict[str, jax.Array]:
        """Return the new rows of all columns of each table, in flat buffers; traceable."""
        made: list[jax.Array] = []
        tables = zip(self._uses, self._row_updates, rows.given(flat), whole, strict=True)
        for use, update, given, brought in tables:
            if update is not None and given is not None:
                others = (values[name] for name in use.reads)
                made += jax.tree.leaves(update.call(*given.rows, *given.pushed, *others, *brought))
        return _flat(made)

    def _with_update(
        self, function: StoredFunction, shapes: Mapping[str, jax.ShapeDtypeStruct]
    ) -> Callable[..., Any]:
        """Return what is compiled, at once for no rows if the function has an update of its own."""
        layout = FlatLayout(function.pushed)
        changed, others = ([shapes[name] for name in names] for names in (self._updates, self._others))
        exported = None
        if function.update:
            exported = deserialized(function.update)
            read = [*(shapes[name] for name in function.reads), *map(_shape, function.pushed)]
            require_same("its update takes", exported.in_avals, read, "the function")
            require_same("its update returns", exported.out_avals, changed, "the function")

        def run(
            rows: RowBuffers,
            changed: list[jax.Array],
            others: list[jax.Array],
            pushed: Mapping[str, jax.Array],
            flat: Mapping[str, jax.Array],
            whole: Sequence[Sequence[jax.Array]],
        ) -> Any:
            values = dict(zip((*self._updates, *self._others), (*changed, *others), strict=True))
            of_tables = self._updated_rows(rows, values, flat, whole)
            if exported is not None:
                given = layout.unpack(pushed)
                made = exported.call(
                    *(values[name] for name in function.reads),
                    *(given[spec.name] for spec in function.pushed),
                )
                values.update(zip(self._updates, jax.tree.leaves(made), strict=True))
            new = [values[name] for name in self._updates]
            return new, self._taken(*(values[name] for name in self._takes)), of_tables

        if function.update:
            buffers = {
                name: jax.ShapeDtypeStruct((size,), dtype_named(name)) for name, size in layout.sizes.items()
            }
            none = self._no_rows
            self._program(run, (0,), none, (changed, others, buffers, none.flat, [() for _ in self._uses]))
        return run

    def _taken(self, *values: jax.Array) -> dict[str, jax.Array]:
        """Return the flat buffers of what workers take; traceable."""
        return _flat(values)


def _flat(values: Iterable[jax.Array]) -> dict[str, jax.Array]:
    """Return arrays one after the other in flat buffers, by the name of their dtype; traceable."""
    parts: dict[str, list[jax.Array]] = {}
    for value in values:
        parts.setdefault(str(value.dtype), []).append(jnp.ravel(value))
    return {dtype: _joined(parts[dtype]) for dtype in sorted(parts)}


def _joined(parts: Sequence[jax.Array]) -> jax.Array:
    """Return flat arrays one after the other; XLA's concatenation takes four times as long on CPUs."""
    joined, start = jnp.zeros(sum(part.size for part in parts), parts[0].dtype), 0
    for part in parts:
        joined = jax.lax.dynamic_update_slice(joined, part, (start,))
        start += part.size
    return joined


def _row_update(
    use: TableUse, columns: Sequence[Column], held: Mapping[str, ArraySpec]
) -> jax.export.Exported:
    """Return the update of any number of rows of a table.

    It takes rows of the columns and what is pushed for each, and then other arrays; it returns rows of the
    columns.

    Args:
        use: How a function uses the table.
        columns: What is kept for each row.
        held: The arrays of the server, by name.

    Raises:
        ValueError: It is none, or does not fit; the text is a clause about it.
    """
    update = deserialized(use.update)
    count = _rows(update)
    pushed = [column_of(each) for each in use.row_pushes]
    rows, given = (
        [jax.ShapeDtypeStruct((count, *each.shape), each.dtype) for each in some]
        for some in (columns, pushed)
    )
    others = map(_shape, (*(held[name] for name in use.reads), *use.pushed))
    require_same("its update of rows takes", update.in_avals, [*rows, *given, *others], "the function")
    require_same("its update of rows returns", update.out_avals, rows, "the function")
    return update


def _rows_on_host(rows: RowBuffers, made: Mapping[str, jax.Array]) -> list[Sequence[Array]]:
    """Return new rows once they are computed, so that what was given can be used again."""
    return rows.made({dtype: np.asarray(buffer) for dtype, buffer in made.items()})


def require_room(what: str, specs: Collection[ArraySpec], held: int = 0) -> None:
    """Raise ValueError if this machine cannot hold some arrays.

    Args:
        what: What they are, for the text.
        specs: The arrays.
        held: The bytes that it holds already.
    """
    needed = sum(spec.nbytes for spec in specs)
    if needed and held + needed > (limit := memory_bytes()):
        largest = max(specs, key=lambda spec: spec.nbytes)
        beside = f" beside {held / 1e9:.1f} GB that are there" if held else ""
        raise ValueError(
            f"{what} take {needed / 1e9:.1f} GB{beside}, of which {largest} has "
            f"{largest.nbytes / 1e9:.1f} GB, and this server has {limit / 1e9:.1f} GB of memory. Give the "
            f"job {math.ceil((held + needed) / limit)} times as many parameter servers, and divide large "
            "variables among them by a partitioner"
        )


def require_dtypes(specs: Iterable[ArraySpec]) -> None:
    """Raise ValueError if JAX would hold an array in another dtype, or not at all."""
    for spec in specs:
        dtype = dtype_named(spec.dtype)
        try:
            holds = jax.device_put(np.empty(0, dtype)).dtype == dtype
        except TypeError:
            holds = False
        if not holds:
            raise ValueError(
                f"its array {spec} has a dtype that JAX does not hold in this server. Set jax_enable_x64 in "
                "all tasks if it has 64 bits, or choose another dtype"
            )


def deserialized(update: bytes) -> jax.export.Exported:
    """Return an exported update; raises ValueError if it is none."""
    try:
        return jax.export.deserialize(bytearray(update))
    except Exception as exc:  # flatbuffers has no exception of its own for bytes that are something else
        raise ValueError(f"its update of {len(update)} bytes is no exported function of JAX: {exc}") from exc


def require_same(
    what: str, given: Sequence[Any], wanted: Sequence[Any], whose: str, same_structure: bool = True
) -> None:
    """Raise ValueError if arrays have other shapes or dtypes than they are to have.

    Args:
        what: What they are given for, for the text.
        given: The arrays, or what has a shape and a dtype like them.
        wanted: What they are to be.
        whose: What says so.
        same_structure: Whether they come in the same structure.
    """
    theirs, ours = ([(tuple(each.shape), each.dtype) for each in some] for some in (given, wanted))
    if theirs != ours or not same_structure:
        said, planned = (
            ", ".join(f"{dtype}{list(shape)}" for shape, dtype in each) or "none" for each in (theirs, ours)
        )
        raise ValueError(f"{what} other arrays than {whose} has: {said}; {whose} has {planned}")


def _rows(update: jax.export.Exported) -> Any:
    """Return the number of rows that an update takes: any, by its own name."""
    shape = update.in_avals[0].shape if update.in_avals else ()
    if not shape or not jax.export.is_symbolic_dim(shape[0]):
        raise ValueError("its update of rows is not for any number of rows")
    return shape[0]


def _shape(spec: ArraySpec) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(spec.shape, dtype_named(spec.dtype))


def _compile(function: Callable[..., Any], donated: tuple[int, ...], *shapes: Any) -> jax.stages.Compiled:
    try:
        return jax.jit(function, donate_argnums=donated).lower(*shapes).compile()
    except Exception as exc:  # of XLA's, and of JAX for another platform
        raise ValueError(f"its update cannot be compiled: {exc}") from exc
