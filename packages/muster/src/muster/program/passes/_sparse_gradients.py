"""Apply gradients of tables to the rows that a step looked up, and to no others, as TensorFlow does.

The gradient of a look-up is as large as its table: zeros, to which the gradients of rows are added. Which
rows those are matters: TensorFlow's momentum, for one, stays as it is for the other rows, and does not decay.
What replicas send each other and what an optimizer updates are these rows, so that the cost does not depend
on the table's size.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster.program.passes._gradient_markers import (
    dense_update,
    has_gradient_markers,
    sum_p,
    update_p,
)
from muster.program.passes._jaxprs import (
    Atom,
    AtomValues,
    Equation,
    body_contains,
    contains,
    has_shardings,
    is_number,
    named,
    variables_of,
)
from muster.program.passes._rows import (
    Rows,
    adds_rows,
    exchanged,
    rows_added,
    sent_rows,
    updated_rows,
    whole_step,
)
from muster.program.passes._served import push_p

# Whether rows may be gathered and sorted; if not, each row of a table is updated or not, by a mask.
_BY_ROWS = jax.make_user_context(True)

by_masks = partial(_BY_ROWS, False)
"""Return a context in which a table's update passes over all of its rows."""


@dataclass(frozen=True)
class _Mask:
    """The number of look-ups of each row of a gradient: float32 of shape (rows,)."""

    counts: jax.Array

    @classmethod
    def of(cls, rows: Rows) -> "_Mask":
        there = (rows.ids < rows.table_rows).astype(jnp.float32)
        return cls(jnp.zeros(rows.table_rows, jnp.float32).at[rows.ids].add(there, mode="drop"))

    def __add__(self, other: "_Mask") -> "_Mask":
        return _Mask(self.counts + other.counts)


_Sparse: TypeAlias = Rows | _Mask


def with_sparse_gradients(
    closed: jex.ClosedJaxpr, gradients: Collection[jex.Var] = ()
) -> Callable[..., list[jax.Array]]:
    """Make a function of flat arguments that computes a jaxpr, with its markers replaced.

    What norms are made of, sums over a whole gradient, is computed of its rows, too.

    Args:
        closed: The jaxpr.
        gradients: Gradients that consist of rows, which are exchanged if those who share a batch do so.
    """
    sums_rows = not contains(closed, push_p)  # what servers compute is divided by its own rules
    return lambda *args: _Evaluation(closed, args, {}, gradients, sums_rows).arrays()


# Of zero these make zero, if all else that they take are numbers.
_OF_ROWS = named("abs convert_element_type copy mul neg reduce_precision sign square")
# Of zero and of anything else these make zero, so that rows that were not looked up stay zero.
_KEEPS_ZERO = {
    *named("abs clamp convert_element_type copy div max min mul neg reduce_precision select_n sign"),
    push_p,
}


class _Evaluation:
    """Computes equations in order, and keeps track of the gradients that consist of rows."""

    def __init__(
        self,
        closed: jex.ClosedJaxpr,
        args: Sequence[jax.Array],
        sparse: Mapping[int, _Sparse],
        gradients: Collection[jex.Var] = (),
        sums_rows: bool = False,
    ) -> None:
        self._jaxpr = jaxpr = closed.jaxpr
        self._gradients = gradients
        self._sums_rows = sums_rows
        self._values = AtomValues.of(closed, args)
        self._pending: list[Equation] = []
        self._broadcasts: dict[Atom, Atom] = {}  # array -> the number that it was broadcast from
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
        elif not self._reduce(eqn):
            if eqn.primitive is lax.broadcast_in_dim_p and is_number(eqn.invars[0]):
                self._broadcasts[eqn.outvars[0]] = eqn.invars[0]
            elif (found := self._scattered(eqn) or self._combined(eqn)) is not None:
                (made,) = eqn.outvars
                self._sparse[made] = found
                if made in self._gradients and isinstance(found, Rows):
                    self._sparse[made] = found = exchanged(found)
                    if found.everywhere:
                        self._values[made] = found.dense()
                        return
            self._pending.append(_with_computed_bodies(eqn))

    def _is_inlined(self, eqn: Equation) -> bool:
        if eqn.primitive is not primitives.jit_p or eqn.effects or has_shardings(eqn):
            return False
        wanted = (lax.scatter_add_p, sum_p, update_p)
        return any(map(self._rows_of, eqn.invars)) or any(body_contains(eqn, each) for each in wanted)

    def _call(self, eqn: Equation) -> None:
        """Compute the body of a jit in its place."""
        taken = {i: rows for i, v in enumerate(eqn.invars) if (rows := self._rows_of(v)) is not None}
        body = _Evaluation(eqn.params["jaxpr"], self._read(eqn.invars), taken, (), self._sums_rows)
        self._values.update(zip(eqn.outvars, body.arrays(), strict=True))
        self._sparse.update(
            (v, rows) for v, rows in zip(eqn.outvars, body.sparse(), strict=True) if rows is not None
        )

    def _scattered(self, eqn: Equation) -> _Sparse | None:
        """Return the rows that a scatter adds to zeros, or to other rows; None if it does something else."""
        if eqn.primitive is not lax.scatter_add_p:
            return None
        if not adds_rows(eqn):
            return None
        operand, indices, updates = eqn.invars
        before = self._rows_of(operand)
        if before is None and not self._is_zero(operand):
            return None
        found = rows_added(eqn, *self._read([indices, updates]))
        if before is None:
            return found
        return before.followed_by(found) if isinstance(before, Rows) else before + _Mask.of(found)

    def _combined(self, eqn: Equation) -> _Sparse | None:
        """Return the rows of the result of an operation on rows; None if it has others."""
        given = [self._rows_of(v) for v in eqn.invars]
        if len(eqn.outvars) != 1 or not any(given):
            return None
        match eqn.primitive, given:
            case lax.add_p | primitives.add_jaxvals_p, [rows, None] if self._is_zero(eqn.invars[1]):
                return rows
            case lax.add_p | primitives.add_jaxvals_p, [None, rows] if self._is_zero(eqn.invars[0]):
                return rows
            case lax.add_p | primitives.add_jaxvals_p, [Rows() as one, Rows() as other]:
                return one + other
            case lax.sub_p, [Rows() as one, Rows() as other]:
                return one + -other
            case lax.add_p | lax.sub_p | primitives.add_jaxvals_p, [one, other] if one and other:
                return self._mask(eqn.invars[0]) + self._mask(eqn.invars[1])
        if (rows := self._mapped(eqn, given)) is not None:
            return rows
        if eqn.primitive in _KEEPS_ZERO and not (eqn.primitive is lax.div_p and given[0] is None):
            return self._mask(eqn.invars[next(i for i, rows in enumerate(given) if rows is not None)])
        return None

    def _mapped(self, eqn: Equation, given: Sequence[_Sparse | None]) -> Rows | None:
        """Return the rows that an elementwise operation makes of those of one gradient, and of numbers."""
        keeps_zero = (
            eqn.primitive in _OF_ROWS
            or (eqn.primitive is lax.div_p and given[1] is None)
            or (eqn.primitive is lax.integer_pow_p and eqn.params["y"] > 0)
        )
        rows = next(each for each in given if each is not None)
        if not keeps_zero or not isinstance(rows, Rows) or not _may_sort(rows):
            return None
        if any(each is not None and each is not rows for each in given):
            return None
        numbers = [None if each else self._number(v) for v, each in zip(eqn.invars, given, strict=True)]
        if any(each is None and number is None for each, number in zip(given, numbers, strict=True)):
            return None
        return rows.map(
            lambda values: eqn.primitive.bind(
                *(values if n is None else jnp.full_like(values, n) for n in numbers), **eqn.params
            )
        )

    def _reduce(self, eqn: Equation) -> bool:
        """Add up all of a gradient by its rows; return whether that is what an equation does."""
        if eqn.primitive is not lax.reduce_sum_p or not self._sums_rows:
            return False
        rows = self._rows_of(eqn.invars[0])
        if not isinstance(rows, Rows) or not rows.takes(rows.size) or not _may_sort(rows):
            return False
        if not is_number(eqn.outvars[0]):
            return False
        ((_, values),) = rows.summed().parts
        self._values[eqn.outvars[0]] = eqn.primitive.bind(values, **eqn.params)
        return True

    def _sum(self, eqn: Equation) -> None:
        """Add gradients over replicas: rows as rows if they are less, others with the mask of their rows."""
        index, *gradients = self._read(eqn.invars)
        replicas = eqn.params["among"](index=index)
        parts: list[list[jax.Array]] = []
        sent_as_rows = []
        for gradient, rows in zip(gradients, map(self._rows_of, eqn.invars[1:]), strict=True):
            may_be_rows = isinstance(rows, Rows) and _may_sort(rows)
            sent = sent_rows(rows, replicas) if may_be_rows else None  # type: ignore[arg-type]
            sent_as_rows.append(sent is not None)
            if sent is None:
                sent = [gradient] if rows is None else [gradient, _as_mask(rows).counts]
            parts.append(sent)
        sums = iter(replicas.sum([array for part in parts for array in part]))
        for v, gradient, part, as_rows in zip(eqn.outvars, gradients, parts, sent_as_rows, strict=True):
            first, *others = [next(sums) for _ in part]
            if as_rows:
                self._sparse[v] = rows = Rows(((first, others[0]),), gradient.shape[0])
                self._values[v] = rows.dense()
                continue
            self._values[v] = first
            if others:
                self._sparse[v] = _Mask(others[0])

    def _update(self, eqn: Equation) -> None:
        """Update the rows that were looked up."""
        rule, count = eqn.params["rule"], eqn.params["count"]
        gradient, *values = self._read(eqn.invars)
        rows = self._rows_of(eqn.invars[0])
        if isinstance(rows, Rows) and _may_sort(rows) and rows.size < gradient.shape[0]:
            made = updated_rows(rows, rule, values, count)
        elif (made := dense_update(gradient, *values, rule=rule, count=count)) and rows is not None:
            counts = _as_mask(rows).counts
            # Not what was looked up: servers take the logical and of what workers say of their batches.
            left = jnp.broadcast_to((counts == 0).reshape(-1, *[1] * (gradient.ndim - 1)), gradient.shape)
            made = [jnp.where(left, old, new) for new, old in zip(made, values, strict=False)]
        self._values.update(zip(eqn.outvars, made, strict=True))

    def _rows_of(self, atom: Atom) -> _Sparse | None:
        return None if isinstance(atom, jex.Literal) else self._sparse.get(atom)

    def _mask(self, atom: Atom) -> _Mask:
        return _as_mask(self._sparse[atom])

    def _is_zero(self, atom: Atom) -> bool:
        start = None if isinstance(atom, jex.Literal) else self._broadcasts.get(atom)
        return isinstance(start, jex.Literal) and bool(start.val == 0)

    def _number(self, atom: Atom) -> jax.Array | None:
        """Return the value of a scalar, or of an array that was broadcast from one; shape ()."""
        if not isinstance(atom, jex.Literal):
            atom = self._broadcasts.get(atom, atom)
        return self._read([atom])[0].reshape(()) if is_number(atom) else None

    def _read(self, atoms: Sequence[Atom]) -> list[jax.Array]:
        if any(v not in self._values for v in variables_of(atoms)):
            self._flush()
        return [jnp.asarray(value) for value in self._values.read(atoms)]  # constants are no JAX arrays

    def _flush(self) -> None:
        self._values.compute(self._pending)
        self._pending = []


def _as_mask(rows: _Sparse) -> _Mask:
    return _Mask.of(rows) if isinstance(rows, Rows) else rows


def _may_sort(rows: Rows) -> bool:
    """Return whether rows may be gathered and sorted: not those of a part of a batch that code sees whole."""
    return rows.everywhere or (_BY_ROWS.value and whole_step().exchange is None)


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
