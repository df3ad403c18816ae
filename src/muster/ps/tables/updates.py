"""Updates of rows that are exported and compiled: the only module of tables that imports JAX."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.export
import numpy as np

from muster._arrays import dtype_named
from muster.ps.tables._pieces import Array
from muster.ps.tables._spec import TableSpec

_Shape = tuple[tuple[Any, ...], np.dtype[Any]]


def export_row_update(
    rule: Callable[..., Sequence[jax.Array]], spec: TableSpec, numbers: Sequence[str] = ("float32",)
) -> bytes:
    """Export an update for any number of rows, on CPUs and on NVIDIA's GPUs.

    Args:
        rule: Takes the rows, their slots, the gradients and the numbers; returns the new rows and slots. It
            must compute each row from the same row of its arguments: others come along that do not count.
        spec: The rows and slots.
        numbers: The names of the dtypes of the numbers, such as the learning rate.
    """
    (count,) = jax.export.symbolic_shape("rows")
    columns = (*spec.columns, spec.columns[0])
    arrays = [jax.ShapeDtypeStruct((count, *column.shape), column.dtype) for column in columns]
    scalars = [jax.ShapeDtypeStruct((), dtype_named(name)) for name in numbers]
    exported = jax.export.export(jax.jit(lambda *args: tuple(rule(*args))), platforms=("cpu", "cuda"))
    return bytes(exported(*arrays, *scalars).serialize())


class CompiledRowUpdate:
    """An exported update, compiled for each number of rows that it gets: the `RowUpdate` of a table.

    Args:
        exported: A serialized ``jax.export.Exported``, as of `export_row_update`.
        spec: The rows and slots that it is for.

    Raises:
        ValueError: It is none, or does not fit the rows; the text is a clause about it.
    """

    def __init__(self, exported: bytes, spec: TableSpec) -> None:
        try:
            update = jax.export.deserialize(bytearray(exported))
        except Exception as exc:  # flatbuffers has no exception of its own for bytes that are something else
            raise ValueError(
                f"the update of table {spec.name!r}, of {len(exported)} bytes, is no exported function of "
                f"JAX: {exc}"
            ) from exc
        rows = [(column.shape, column.dtype) for column in spec.columns]
        taken, made = _of_rows(update.in_avals), _of_rows(update.out_avals)
        scalars = update.in_avals[len(rows) + 1 :]
        _check(spec, "takes", taken[: len(rows) + 1], [*rows, rows[0]])
        _check(spec, "returns", made, rows)
        if any(each.shape for each in scalars):
            raise ValueError(f"the update of table {spec.name!r} takes more arrays than there are slots")
        self._dtypes = [each.dtype for each in scalars]
        self._call = jax.jit(update.call)

    @property
    def numbers(self) -> int:
        """How many numbers it takes after the gradients."""
        return len(self._dtypes)

    def __call__(self, rows: Sequence[Array], gradients: Array, numbers: Sequence[Any]) -> Sequence[Array]:
        """Return the new rows and slots."""
        scalars = [np.asarray(number, dtype) for number, dtype in zip(numbers, self._dtypes, strict=True)]
        # Waits for what is computed, so that what was given can be used again.
        return [np.asarray(array) for array in self._call(*rows, gradients, *scalars)]


def _of_rows(arrays: Sequence[Any]) -> list[_Shape | None]:
    """Return the shape and dtype of a row of each array; None if its number of rows is fixed."""
    return [
        (each.shape[1:], each.dtype) if each.shape and jax.export.is_symbolic_dim(each.shape[0]) else None
        for each in arrays
    ]


def _check(spec: TableSpec, verb: str, given: Sequence[_Shape | None], wanted: Sequence[_Shape]) -> None:
    """Raise ValueError if the arguments or results of an update are not those of its table."""
    if list(given) != list(wanted):
        theirs, ours = (
            ", ".join("no rows" if each is None else f"{each[1]}{list(each[0])}" for each in some) or "none"
            for some in (given, wanted)
        )
        raise ValueError(f"the update of table {spec.name!r} {verb} rows of {theirs}; the table has {ours}")
