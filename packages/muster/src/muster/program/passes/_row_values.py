"""Find the values of a program that can be computed for some rows of a table alone.

A table and its gradient have a row for each id that there is, and a step needs few of them. Where each row of
a value is computed from the same rows of others, such as a cast or a sum of gradients, the program can do so
for some rows alone. All else that it does with such values must be a look-up, or a sum in which the rows that
are left out would be zeros.
"""

from collections.abc import Collection, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core as jex

from muster._errors import TraceError
from muster.program.passes._jaxprs import ELEMENTWISE, Atom, Equation, is_number, named, type_of, variables_of


class NotByRowsError(TraceError):
    """A step needs a table as a whole. What divides it may take the table for an ordinary variable.

    Attributes:
        table: The path of the table.
    """

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(
            f"{table}: its rows cannot be taken from a parameter server one by one, since {reason}. Read "
            "tables by look-ups of ids that the batch has, such as keras.layers.Embedding does, or let "
            "workers have the variable as a whole."
        )
        self.table = table


_REDUCTIONS = named("reduce_and reduce_max reduce_min reduce_or reduce_sum")
# What a value must be in all rows that are left out for these to compute the same without them.
_NEUTRAL = {lax.reduce_sum_p: 0, lax.reduce_and_p: True, lax.reduce_or_p: False}


class RowValues:
    """The values of a program that consist of rows of a table.

    Args:
        path: The path of the table.
        shape: Its shape.
        eqns: The equations of the program, without such as nothing needs.
        table: The table in the program; None if it is not read.
        results: The results of the program that are to be computed for some rows.

    Raises:
        NotByRowsError: A row of some value is computed from others, or the table is read as a whole.
    """

    def __init__(
        self,
        path: str,
        shape: Sequence[int],
        eqns: Sequence[Equation],
        table: jex.Var | None,
        results: Collection[jex.Var],
    ) -> None:
        self.path = path
        self.rows = shape[0]
        self._table = table
        self._makers: dict[Atom, Equation] = {v: eqn for eqn in eqns for v in eqn.outvars}
        self._found: set[Atom] = {*results, *([] if table is None else [table])}
        self._find(eqns)
        self._rests: dict[Atom, object] = {}
        for eqn in eqns:
            by_rows = self.makes(eqn) and self._operands(eqn) is not None
            if self.takes(eqn) and not (by_rows or self.looks_up(eqn) or self._reduces(eqn)):
                self._refuse(f"the step reads all of them by {eqn.primitive.name}")
        for v in self._found - {table}:
            if v not in self._makers:
                self._refuse("the step computes with them and with another array of as many rows")
            if self._operands(self._makers[v]) is None:
                self._refuse(f"the step computes all of their gradients by {self._makers[v].primitive.name}")

    def __contains__(self, atom: Atom) -> bool:
        return not isinstance(atom, jex.Literal) and atom in self._found

    def makes(self, eqn: Equation) -> bool:
        """Return whether the result of an equation consists of rows of the table."""
        return eqn.outvars[0] in self._found if eqn.outvars else False

    def takes(self, eqn: Equation) -> bool:
        """Return whether an equation takes such a value."""
        return any(v in self for v in eqn.invars)

    def looks_up(self, eqn: Equation) -> bool:
        """Return whether an equation looks up rows of such a value."""
        if eqn.primitive is not lax.gather_p or any(v in self for v in eqn.invars[1:]):
            return False
        axes = eqn.params["dimension_numbers"]
        whole = eqn.params["slice_sizes"][0] == 1 and not axes.operand_batching_dims
        return whole and 0 in axes.collapsed_slice_dims and 0 in axes.start_index_map

    def adds_rows(self, eqn: Equation) -> bool:
        """Return whether an equation adds rows to such a value, by their ids."""
        if eqn.primitive is not lax.scatter_add_p or any(v in self for v in eqn.invars[1:]):
            return False
        axes = eqn.params["dimension_numbers"]
        whole = 0 in axes.inserted_window_dims and not axes.operand_batching_dims
        return whole and 0 in axes.scatter_dims_to_operand_dims

    def as_broadcast(self, atom: Atom) -> Equation | None:
        """Return the equation that makes the rows of a value of those of a narrower one, if one does."""
        eqn = self._makers.get(atom)
        return eqn if eqn and eqn.primitive is lax.broadcast_in_dim_p and self.takes(eqn) else None

    def is_alike(self, atom: Atom) -> bool:
        """Return whether all rows of a value are the same, whatever their number."""
        if isinstance(atom, jex.Literal) or not self._is_tall(atom) or atom not in self._makers:
            return False
        eqn = self._makers[atom]
        return eqn.primitive is lax.broadcast_in_dim_p and self._operands(eqn) == []

    def maker(self, atom: Atom) -> Equation:
        """Return the equation that computes a value."""
        return self._makers[atom]

    def _is_tall(self, atom: Atom) -> bool:
        shape = type_of(atom).shape
        return len(shape) > 0 and shape[0] == self.rows and not is_number(atom)

    def _operands(self, eqn: Equation) -> list[jex.Var] | None:
        """Return the operands of whose rows an equation makes the same rows of its result.

        None if it makes them of others, or makes no rows.
        """
        if len(eqn.outvars) != 1 or not self._is_tall(eqn.outvars[0]):
            return None
        tall = [v for v in variables_of(eqn.invars) if self._is_tall(v)]
        params = eqn.params
        if eqn.primitive in ELEMENTWISE:
            return tall
        if eqn.primitive is lax.broadcast_in_dim_p:
            axes = params["broadcast_dimensions"]
            fixed = type_of(eqn.invars[0]).shape[axes.index(0)] if 0 in axes else 1
            return [] if fixed == 1 else tall
        if self.adds_rows(eqn):
            return [v for v in variables_of(eqn.invars[:1]) if self._is_tall(v)]
        keeps_first_axis = (eqn.primitive is lax.reshape_p and params["dimensions"] is None) or (
            eqn.primitive in _REDUCTIONS and 0 not in params["axes"]
        )
        return tall if keeps_first_axis and len(tall) == 1 else None

    def _find(self, eqns: Sequence[Equation]) -> None:
        """Find all values that rows of the table, or of results, are computed with."""
        before = -1
        while before < len(self._found):
            before = len(self._found)
            for eqn in (*eqns, *reversed(eqns)):
                tall = [v for v in self._operands(eqn) or [] if not self.is_alike(v)]
                linked = bool(self._found.intersection(tall))
                if linked or (self.makes(eqn) and tall):
                    self._found.update((*tall, *eqn.outvars))

    def _reduces(self, eqn: Equation) -> bool:
        """Return whether an equation computes the same without the rows that are left out."""
        if eqn.primitive not in _NEUTRAL or len(eqn.invars) != 1:
            return False
        rest = self.rest(eqn.invars[0])
        return rest is not None and rest == _NEUTRAL[eqn.primitive]

    def rest(self, atom: Atom) -> object:
        """Return what all elements of a value are in rows that no id asks for; None if that is not known."""
        if isinstance(atom, jex.Literal):
            return None if type_of(atom).shape else atom.val
        if atom not in self._rests:
            self._rests[atom] = self._find_rest(self._makers.get(atom))
        return self._rests[atom]

    def _find_rest(self, eqn: Equation | None) -> object:
        if eqn is None or len(eqn.outvars) != 1:
            return None
        if eqn.primitive is lax.scatter_add_p or eqn.primitive in (lax.broadcast_in_dim_p, lax.reshape_p):
            return self.rest(eqn.invars[0]) if self._operands(eqn) is not None else None
        rests = [self.rest(v) for v in eqn.invars]
        is_zero = [rest is not None and rest == 0 for rest in rests]
        if (eqn.primitive is lax.mul_p and any(is_zero)) or (eqn.primitive is lax.div_p and is_zero[0]):
            return 0
        if eqn.primitive not in ELEMENTWISE or any(rest is None for rest in rests):
            return None
        with jax.ensure_compile_time_eval():
            dtypes = [type_of(v).dtype for v in eqn.invars]
            numbers = [jnp.asarray(rest, dtype) for rest, dtype in zip(rests, dtypes, strict=True)]
            made: object = np.asarray(eqn.primitive.bind(*numbers, **eqn.params))[()]
            return made

    def _refuse(self, reason: str) -> None:
        raise NotByRowsError(self.path, reason)
