"""Hold a gradient of a table as the rows that were looked up, send these among replicas, and apply them.

The gradient of a look-up is as large as its table: zeros, to which the gradients of rows are added. All that
is done here gives the numbers that the whole gradient gives, bit for bit: each replica adds up the rows of
each id that it has looked up, and these sums are added in the order of the replicas.
"""

import contextlib
import dataclasses
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from muster.program._replicas import Replicas
from muster.program.passes._gradient_markers import Rule
from muster.program.passes._jaxprs import Equation, type_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rows:
    """Rows to add to zeros.

    Attributes:
        parts: Ids, int32 of shape (n,), and values of shape (n, ...). The rows of a part are added one after
            the other, and the sums of the parts then. The ids of rows that the table does not have are its
            number of rows.
        table_rows: The number of rows of the table.
        once: Whether each id is there once at most; then values without an id are zeros.
        everywhere: Whether all devices or processes that share a batch have all of the rows.
    """

    parts: tuple[tuple[jax.Array, jax.Array], ...]
    table_rows: int
    once: bool = False
    everywhere: bool = False

    def __add__(self, other: "Rows") -> "Rows":
        """Return the rows of the sum of two gradients."""
        everywhere = self.everywhere and other.everywhere
        return Rows((*self.parts, *other.parts), self.table_rows, everywhere=everywhere)

    def __neg__(self) -> "Rows":
        parts = tuple((ids, lax.neg(values)) for ids, values in self.parts)
        return dataclasses.replace(self, parts=parts)

    def followed_by(self, other: "Rows") -> "Rows":
        """Return rows to which others, of one part, are added one after the other."""
        *first, last = self.parts
        ids, values = map(jnp.concatenate, zip(last, other.parts[0], strict=True))
        return Rows((*first, (ids, values)), self.table_rows, everywhere=self.everywhere and other.everywhere)

    @property
    def ids(self) -> jax.Array:
        """The ids of all parts."""
        return jnp.concatenate([ids for ids, _ in self.parts])

    @property
    def values(self) -> jax.Array:
        """The values of all parts."""
        return jnp.concatenate([values for _, values in self.parts])

    def summed(self) -> "Rows":
        """Return the rows with each id once, in ascending order."""
        if self.once or not self.size:
            return self
        parts = [_summed(*part, self.table_rows) for part in self.parts]
        if len(parts) > 1:
            ids, values = map(jnp.concatenate, zip(*parts, strict=True))
            parts = [_summed(ids, values, self.table_rows)]
        return dataclasses.replace(self, parts=tuple(parts), once=True)

    def summed_by_device(self, sizes: Sequence[int]) -> "Rows":
        """Return rows with each id once for each of the devices that share a batch.

        Args:
            sizes: The number of examples that each device has, the first one most; each part has as many
                rows for each example.
        """
        blocks, largest = len(sizes), sizes[0]
        parts = []
        for ids, values in self.parts:
            length = ids.size // sum(sizes) * largest
            missing = blocks * length - ids.size
            if ids.size % sum(sizes):
                return self.summed()
            ids = jnp.pad(ids, (0, missing), constant_values=self.table_rows)
            values = jnp.pad(values, [(0, missing), *[(0, 0)] * (values.ndim - 1)])
            parts.append((ids.reshape(blocks, length), values.reshape(blocks, length, *values.shape[1:])))

        def of_device(parts: Any) -> tuple[jax.Array, jax.Array]:
            return Rows(tuple(parts), self.table_rows).summed().parts[0]

        ids, values = jax.vmap(of_device)(parts)
        return Rows(((ids.reshape(-1), values.reshape(-1, *values.shape[2:])),), self.table_rows)

    def map(self, function: Callable[[jax.Array], jax.Array]) -> "Rows":
        """Return the rows of what an elementwise function, which keeps zeros, makes of the gradient."""
        rows = self.summed()
        return dataclasses.replace(rows, parts=tuple((ids, function(values)) for ids, values in rows.parts))

    def dense(self) -> jax.Array:
        """Return the whole gradient."""
        zeros = jnp.zeros((self.table_rows, *self.values.shape[1:]), self.values.dtype)
        return zeros.at[self.ids].add(self.values, mode="drop")

    @property
    def size(self) -> int:
        """How many rows there are, the same ones as often as they come."""
        return sum(int(ids.size) for ids, _ in self.parts)

    @property
    def width(self) -> int:
        """The number of elements of a row."""
        return math.prod(self.parts[0][1].shape[1:])

    def takes(self, rows: int) -> str | None:
        """Say what it takes to send so many rows; None if the whole gradient is not more."""
        numbers, whole = rows * (1 + self.width), self.table_rows * self.width
        return f"{numbers:,} numbers rather than {whole:,}" if numbers < whole else None


def _summed(ids: jax.Array, values: jax.Array, table_rows: int) -> tuple[jax.Array, jax.Array]:
    size = ids.size
    ids, places = jnp.unique(ids, return_inverse=True, size=size, fill_value=table_rows)
    sums = jax.ops.segment_sum(values, places, size)
    there = (ids < table_rows).reshape(-1, *[1] * (sums.ndim - 1))
    return ids, jnp.where(there, sums, 0)


def adds_rows(eqn: Equation) -> bool:
    """Return whether a scatter adds whole rows to its operand."""
    operand, indices, updates = map(type_of, eqn.invars)
    axes = eqn.params["dimension_numbers"]
    trailing = range(indices.ndim - 1, updates.ndim)
    return (
        axes.inserted_window_dims == (0,)
        and axes.scatter_dims_to_operand_dims == (0,)
        and not axes.operand_batching_dims
        and axes.update_window_dims == tuple(trailing)
        and updates.shape[trailing.start :] == operand.shape[1:]
    )


def rows_added(eqn: Equation, indices: jax.Array, updates: jax.Array) -> Rows:
    """Return the rows that such a scatter adds, of its indices and updates."""
    shape = type_of(eqn.invars[0]).shape
    ids = indices.reshape(-1).astype(jnp.int32)
    if eqn.params["mode"] == lax.GatherScatterMode.CLIP:
        ids = jnp.clip(ids, 0, shape[0] - 1)
    ids = jnp.where((ids < 0) | (ids >= shape[0]), shape[0], ids)
    return Rows(((ids, updates.reshape(-1, *shape[1:])),), shape[0])


def updated_rows(rows: Rows, rule: Rule, values: Sequence[jax.Array], count: int) -> list[jax.Array]:
    """Apply the rule to rows that are gathered, and put them back."""
    if not rows.size:
        return list(values[:count])
    ((ids, sums),) = rows.summed().parts
    is_table = [each.shape[:1] == (rows.table_rows,) for each in values]
    gathered = [
        each.at[ids].get(mode="clip") if table else each for each, table in zip(values, is_table, strict=True)
    ]
    made = rule(sums, *gathered)
    return [
        old.at[ids].set(new.astype(old.dtype), mode="drop", indices_are_sorted=True)
        for old, new in zip(values, made, strict=False)
    ]


def sent_rows(rows: Rows, replicas: Replicas) -> list[jax.Array] | None:
    """Return what a replica sends to get the rows of all as sums; None if the whole gradient is less."""
    if not rows.size:
        return None
    (part,) = rows.summed().parts
    lengths = replicas.row_counts(part[0])
    _say(rows, sum(lengths))
    return [replicas.placed(each, lengths) for each in part] if rows.takes(sum(lengths)) else None


def _say(rows: Rows, count: int) -> None:
    found = rows.takes(count)
    how = "as a whole, which is not more than its rows" if found is None else f"by rows: {found}"
    shape = [rows.table_rows, *rows.parts[0][1].shape[1:]]
    _log.debug("The gradient of a table of shape %s is sent %s.", shape, how)


Exchange: TypeAlias = Callable[[Rows], Rows]
"""Returns the rows that all devices or processes have, of what each looks up for its part of a batch."""


@dataclass(frozen=True)
class Whole:
    """The step that the code that is traced is a part of.

    Attributes:
        exchange: How those who share its batch exchange rows; None if nobody shares it.
        takes_markers: Whether what rewrites it takes the markers that the code leaves.
    """

    exchange: Exchange | None = None
    takes_markers: bool = False


_ALONE = Whole()
_WHOLE: ContextVar[Whole] = ContextVar("muster_whole_step", default=_ALONE)


def whole_step() -> Whole:
    """Return the step that the code that this thread traces is a part of."""
    return _WHOLE.get()


@contextlib.contextmanager
def part_of(whole: Whole) -> Iterator[None]:
    """Trace code in a ``with`` block as a part of a step."""
    token = _WHOLE.set(whole)
    try:
        yield
    finally:
        _WHOLE.reset(token)


def exchanging_rows(exchange: Exchange) -> contextlib.AbstractContextManager[None]:
    """Trace steps that see all rows of a divided batch, with how those who share it exchange rows."""
    return part_of(dataclasses.replace(whole_step(), exchange=exchange))


def exchanged(rows: Rows) -> Rows:
    """Return rows that all have, if a batch is divided and these are less to send than the whole gradient."""
    exchange = whole_step().exchange
    if exchange is None or not rows.size:
        return rows
    _say(rows, rows.size)
    return dataclasses.replace(exchange(rows), everywhere=True) if rows.takes(rows.size) else rows


def _joined_shapes(*arrays: Any, table_rows: int) -> list[Any]:
    size = sum(each.size for each in arrays[::2])
    return [arrays[0].update(shape=(size,)), arrays[1].update(shape=(size, *arrays[1].shape[1:]))]


exchange_rows_p = jex.Primitive("muster_exchange_rows")
exchange_rows_p.multiple_results = True
exchange_rows_p.def_abstract_eval(_joined_shapes)


def exchanged_by_marker(rows: Rows) -> Rows:
    """Return the rows that all have, by a marker for the pass that divides a step among processes."""
    flat = [array for part in rows.parts for array in part]
    ids, values = exchange_rows_p.bind(*flat, table_rows=rows.table_rows)
    return Rows(((ids, values),), rows.table_rows)


def own_sums(arrays: Sequence[jax.Array], table_rows: int) -> tuple[jax.Array, jax.Array]:
    """Return the ids and values, each id once, of a process' part of what is exchanged by a marker."""
    return Rows(tuple(zip(arrays[::2], arrays[1::2], strict=True)), table_rows).summed().parts[0]
