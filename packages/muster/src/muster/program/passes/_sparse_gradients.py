"""Apply gradients of tables to the rows that a step looked up, and to no others, as TensorFlow does.

The gradient of a look-up is as large as its table: zeros, to which the gradients of rows are added. Which
rows those are matters: TensorFlow's momentum, for one, stays as it is for the other rows, and does not decay.
What replicas send each other and what an optimizer updates are these rows, so that the cost does not depend
on the table's size.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster.program._replicas import Replicas
from muster.program.passes._gradient_markers import (
    Rule,
    dense_update,
    has_gradient_markers,
    sum_p,
    update_p,
)
from muster.program.passes._jaxprs import (
    Atom,
    Equation,
    Values,
    body_contains,
    has_shardings,
    named,
    type_of,
    variables_of,
)
from muster.program.passes._served import push_p

# Whether rows may be gathered and sorted; if not, each row of a table is updated or not, by a mask.
_BY_ROWS = jax.make_user_context(True)

by_masks = partial(_BY_ROWS, False)
"""Return a context in which a table's update passes over all of its rows."""


@dataclass(frozen=True)
class Rows:
    """Rows to add to zeros.

    Attributes:
        ids: Integers of shape (n,); those of rows that the table does not have are its number of rows.
        values: An array of shape (n, ...).
    """

    ids: jax.Array
    values: jax.Array

    def __add__(self, other: "Rows") -> "Rows":
        ids = jnp.concatenate([self.ids, other.ids])
        return Rows(ids, jnp.concatenate([self.values, other.values]))

    def map(self, function: Callable[[jax.Array], jax.Array]) -> "Rows":
        return Rows(self.ids, function(self.values))

    def dense(self, like: jax.Array) -> jax.Array:
        return jnp.zeros_like(like).at[self.ids].add(self.values, mode="drop")

    def mask(self, rows: int) -> "_Mask":
        there = (self.ids < rows).astype(jnp.float32)
        return _Mask(jnp.zeros(rows, jnp.float32).at[self.ids].add(there, mode="drop"))


@dataclass(frozen=True)
class _Mask:
    """The number of look-ups of each row of a gradient: float32 of shape (rows,)."""

    counts: jax.Array

    def mask(self, rows: int) -> "_Mask":
        return self


_Sparse: TypeAlias = Rows | _Mask


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


def rows_added(eqn: Equation, indices: jax.Array, updates: jax.Array) -> "Rows":
    """Return the rows that such a scatter adds, of its indices and updates."""
    shape = type_of(eqn.invars[0]).shape
    ids = indices.reshape(-1).astype(jnp.int32)
    if eqn.params["mode"] == lax.GatherScatterMode.CLIP:
        ids = jnp.clip(ids, 0, shape[0] - 1)
    ids = jnp.where((ids < 0) | (ids >= shape[0]), shape[0], ids)
    return Rows(ids, updates.reshape(-1, *shape[1:]))


def with_sparse_gradients(closed: jex.ClosedJaxpr) -> Callable[..., list[jax.Array]]:
    """Make a function of flat arguments that computes a jaxpr, with its markers replaced."""
    return lambda *args: _Evaluation(closed, args, {}).arrays()


# Of zero and of anything else these make zero, so that rows that were not looked up stay zero.
_KEEPS_ZERO = {
    *named("abs clamp convert_element_type copy div max min mul neg reduce_precision select_n sign"),
    push_p,
}


class _Evaluation:
    """Computes equations in order, and keeps track of the gradients that consist of rows."""

    def __init__(
        self, closed: jex.ClosedJaxpr, args: Sequence[jax.Array], sparse: Mapping[int, _Sparse]
    ) -> None:
        self._jaxpr = jaxpr = closed.jaxpr
        self._values = Values.of(closed, args)
        self._pending: list[Equation] = []
        self._broadcasts: dict[Atom, Atom] = {}  # array -> the scalar that it was broadcast from
        self._sparse: dict[Atom, _Sparse] = {jaxpr.invars[place]: each for place, each in sparse.items()}
        for eqn in jaxpr.eqns:
            self._compute(eqn)

    def arrays(self) -> list[jax.Array]:
        """Return the results."""
        self._flush()  # includes equations with effects and no results
        return self._values.read(self._jaxpr.outvars)

    def sparse(self) -> Iterator[_Sparse | None]:
        """Return for each result the rows that it consists of, if it does."""
        return map(self._rows_of, self._jaxpr.outvars)

    def _compute(self, eqn: Equation) -> None:
        if eqn.primitive is sum_p:
            self._sum(eqn)
        elif eqn.primitive is update_p:
            self._update(eqn)
        elif self._is_inlined(eqn):
            self._call(eqn)
        else:
            self._pending.append(_with_computed_bodies(eqn))
            if eqn.primitive is lax.broadcast_in_dim_p and type_of(eqn.invars[0]).shape == ():
                self._broadcasts[eqn.outvars[0]] = eqn.invars[0]
            elif (found := self._scattered(eqn) or self._combined(eqn)) is not None:
                self._sparse[eqn.outvars[0]] = found

    def _is_inlined(self, eqn: Equation) -> bool:
        if eqn.primitive is not primitives.jit_p or eqn.effects or has_shardings(eqn):
            return False
        wanted = (lax.scatter_add_p, sum_p, update_p)
        return any(map(self._rows_of, eqn.invars)) or any(body_contains(eqn, each) for each in wanted)

    def _call(self, eqn: Equation) -> None:
        """Compute the body of a jit in its place."""
        taken = {i: rows for i, v in enumerate(eqn.invars) if (rows := self._rows_of(v)) is not None}
        body = _Evaluation(eqn.params["jaxpr"], self._read(eqn.invars), taken)
        self._values.update(zip(eqn.outvars, body.arrays(), strict=True))
        self._sparse.update(
            (v, rows) for v, rows in zip(eqn.outvars, body.sparse(), strict=True) if rows is not None
        )

    def _scattered(self, eqn: Equation) -> Rows | None:
        """Return the rows that a scatter adds to zeros, or to other rows; None if it does something else."""
        if eqn.primitive is not lax.scatter_add_p:
            return None
        if not adds_rows(eqn):
            return None
        operand, indices, updates = eqn.invars
        before = self._rows_of(operand)
        start = self._broadcasts.get(operand)
        if not isinstance(before, Rows) and not (isinstance(start, jex.Literal) and start.val == 0):
            return None
        found = rows_added(eqn, *self._read([indices, updates]))
        return before + found if isinstance(before, Rows) else found

    def _combined(self, eqn: Equation) -> _Sparse | None:
        """Return the rows of the result of an operation on rows; None if it has others."""
        given = [self._rows_of(v) for v in eqn.invars]
        if len(eqn.outvars) != 1 or not any(given):
            return None
        match eqn.primitive, given:
            case lax.add_p | primitives.add_jaxvals_p, [Rows() as one, Rows() as other]:
                return one + other
            case lax.sub_p, [Rows() as one, Rows() as other]:
                return one + other.map(lax.neg)
            case lax.neg_p | lax.convert_element_type_p, [Rows() as rows]:
                return rows.map(lambda values: eqn.primitive.bind(values, **eqn.params))
            case (lax.mul_p | lax.div_p, [Rows() as rows, None]) | (lax.mul_p, [None, Rows() as rows]):
                factor = self._number(eqn.invars[given.index(None)])
                if factor is not None:
                    return rows.map(lambda values: eqn.primitive.bind(values, jnp.full_like(values, factor)))
            case lax.add_p | lax.sub_p | primitives.add_jaxvals_p, [one, other] if one and other:
                counts = [self._mask(v).counts for v in eqn.invars]
                return _Mask(counts[0] + counts[1])
        if eqn.primitive in _KEEPS_ZERO and not (eqn.primitive is lax.div_p and given[0] is None):
            return self._mask(eqn.invars[next(i for i, rows in enumerate(given) if rows is not None)])
        return None

    def _sum(self, eqn: Equation) -> None:
        """Add gradients over replicas: rows as rows if they are few, others with the mask of their rows."""
        index, *gradients = self._read(eqn.invars)
        replicas = eqn.params["among"](index=index)
        parts: list[list[jax.Array]] = []
        sent_as_rows = []
        for gradient, rows in zip(gradients, map(self._rows_of, eqn.invars[1:]), strict=True):
            as_rows = isinstance(rows, Rows) and _are_few(rows, gradient, replicas)
            sent_as_rows.append(as_rows)
            if isinstance(rows, Rows) and as_rows:
                parts.append([_placed(rows.ids, replicas), _placed(rows.values, replicas)])
            else:
                parts.append([gradient] if rows is None else [gradient, rows.mask(gradient.shape[0]).counts])
        sums = iter(replicas.sum([array for part in parts for array in part]))
        for v, gradient, part, as_rows in zip(eqn.outvars, gradients, parts, sent_as_rows, strict=True):
            first, *others = [next(sums) for _ in part]
            if as_rows:
                rows = Rows(first.reshape(-1), others[0].reshape(-1, *gradient.shape[1:]))
                self._sparse[v], self._values[v] = rows, rows.dense(gradient)
                continue
            self._values[v] = first
            if others:
                self._sparse[v] = _Mask(others[0])

    def _update(self, eqn: Equation) -> None:
        """Update the rows that were looked up."""
        rule, count = eqn.params["rule"], eqn.params["count"]
        gradient, *values = self._read(eqn.invars)
        rows = self._rows_of(eqn.invars[0])
        if isinstance(rows, Rows) and _BY_ROWS.value and rows.ids.size < gradient.shape[0]:
            made = updated_rows(rows, rule, values, count)
        elif (made := dense_update(gradient, *values, rule=rule, count=count)) and rows is not None:
            counts = self._mask(eqn.invars[0]).counts
            # Not what was looked up: servers take the logical and of what workers say of their batches.
            left = jnp.broadcast_to((counts == 0).reshape(-1, *[1] * (gradient.ndim - 1)), gradient.shape)
            made = [jnp.where(left, old, new) for new, old in zip(made, values, strict=False)]
        self._values.update(zip(eqn.outvars, made, strict=True))

    def _rows_of(self, atom: Atom) -> _Sparse | None:
        return None if isinstance(atom, jex.Literal) else self._sparse.get(atom)

    def _mask(self, atom: Atom) -> _Mask:
        return self._sparse[atom].mask(type_of(atom).shape[0])

    def _number(self, atom: Atom) -> jax.Array | None:
        """Return the value of a scalar, or of an array that was broadcast from one."""
        if not isinstance(atom, jex.Literal):
            atom = self._broadcasts.get(atom, atom)
        return None if type_of(atom).shape else self._read([atom])[0]

    def _read(self, atoms: Sequence[Atom]) -> list[jax.Array]:
        if any(v not in self._values for v in variables_of(atoms)):
            self._flush()
        return [jnp.asarray(value) for value in self._values.read(atoms)]  # constants are no JAX arrays

    def _flush(self) -> None:
        self._values.compute(self._pending)
        self._pending = []


def _are_few(rows: Rows, gradient: jax.Array, replicas: Replicas) -> bool:
    """Return whether to send rows rather than the whole gradient."""
    if not _BY_ROWS.value or replicas.shares is not None or replicas.active < replicas.count:
        return False
    return replicas.count * (rows.ids.size + rows.values.size) < gradient.size


def _placed(array: jax.Array, replicas: Replicas) -> jax.Array:
    """Return zeros for all replicas, with this one's array at its place: their sum is what all have."""
    return jnp.zeros((replicas.count, *array.shape), array.dtype).at[replicas.index].set(array)


def updated_rows(rows: Rows, rule: Rule, values: Sequence[jax.Array], count: int) -> list[jax.Array]:
    """Apply the rule to rows that are gathered, and put them back."""
    table = values[0]
    if not rows.ids.size:
        return list(values[:count])
    ids, places = jnp.unique(rows.ids, return_inverse=True, size=rows.ids.size, fill_value=table.shape[0])
    total = jax.ops.segment_sum(rows.values, places, ids.size)
    gathered = [each.at[ids].get(mode="clip") if each.ndim else each for each in values]
    made = rule(total, *gathered)
    return [
        old.at[ids].set(new.astype(old.dtype), mode="drop", indices_are_sorted=True)
        for old, new in zip(values, made, strict=False)
    ]


def _with_computed_bodies(eqn: Equation) -> Equation:
    """Replace the markers in the bodies of a loop or branch."""
    if not any(map(has_gradient_markers, jex.jaxprs_in_params(eqn.params))):
        return eqn

    def replaced(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(map(replaced, value))
        if isinstance(value, jex.ClosedJaxpr):
            return jax.make_jaxpr(with_sparse_gradients(value))(*value.in_avals)
        return value

    params = {name: replaced(value) for name, value in eqn.params.items()}
    return eqn.replace(params=params)  # type: ignore[no-any-return]
