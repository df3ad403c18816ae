"""Let a worker take only the rows of tables that a batch looks up, and push gradients of these rows alone.

Of a step that is divided between a worker and servers, `LookupStep` makes a program that computes which ids
each table is asked for, and one that takes the rows of these ids in the tables' places. What that pushes, and
what an update of a table takes and returns, has as many rows. Nothing is as large as a table.

A row that no look-up of a step asks for stays as it is, with its slots, whatever the optimizer. An id that is
out of range is for the host to refuse (`muster._row_ids`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from muster.program.passes._by_rows import ZERO, CoupledRowsError, by_rows, values_without
from muster.program.passes._jaxprs import (
    Atom,
    AtomValues,
    Equation,
    function_of,
    is_number,
    needed_equations,
    type_of,
    variables_of,
    with_inlined_calls,
)
from muster.program.passes._row_values import NotByRowsError, RowValues
from muster.program.passes._served import UpdatePart, WorkerServerSplit
from muster.program.passes._some_rows import SomeRows, TableRows, asked_ids, widened


class LookupStep:
    """A step that is divided between a worker, which takes rows of tables, and servers.

    Args:
        step: The step.
        tables: The paths of the tables.
        state: Path -> shape and dtype of each variable of the step.
        batch: The batch, or the shapes and dtypes of its arrays.

    Attributes:
        takes: The paths of the variables on servers that the worker reads as a whole.
        tables: The paths of the tables.
        local: As of the step.
        columns: Table -> the paths of the variables that its update takes by rows: it, and its slots.
        row_pushes: Table -> the numbers of the pushed arrays that have a row for each row of it that the
            worker was given.

    Raises:
        NotByRowsError: The step needs a table as a whole.
    """

    def __init__(
        self, step: WorkerServerSplit, tables: Collection[str], state: Mapping[str, Any], batch: Any
    ) -> None:
        self._step = step
        self._groups = step.groups()
        self.tables = tuple(tables)
        self.local = step.local
        self._shapes = {path: jax.ShapeDtypeStruct(each.shape, each.dtype) for path, each in state.items()}
        self.takes = tuple(path for path in step.takes if path not in tables)
        inputs = [[self._shapes[path] for path in paths] for paths in (step.takes, step.local)]
        closed, results = jax.make_jaxpr(step.work, return_shape=True)(*inputs, batch)
        self._structure = jax.tree.structure(results)
        closed = with_inlined_calls(closed)
        jaxpr = closed.jaxpr
        self._constants: dict[jex.Var, jax.Array] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        self._outvars = jaxpr.outvars
        self._eqns = needed_equations(jaxpr.eqns, jaxpr.outvars)[0]
        self._invars: dict[str, jex.Var] = dict(zip((*step.takes, *step.local), jaxpr.invars, strict=False))
        self._own = [*(self._invars[path] for path in step.local), *jaxpr.invars[len(self._invars) :]]

        self._parts = {path: self._part(path, tables) for path in tables}
        self.columns = {path: self._columns(path, part) for path, part in self._parts.items()}
        self.row_pushes = {
            path: tuple(i for i in part.pushes if not is_number(self._outvars[i])) if part else ()
            for path, part in self._parts.items()
        }
        self._values = {path: self._values_of(path) for path in tables}
        self._owners = {  # of each equation that makes or takes rows, the table
            id(eqn): path
            for path, values in self._values.items()
            for eqn in self._eqns
            if values.makes(eqn) or values.takes(eqn)
        }
        # What broadcasts pushed rows: they travel before, such as a mask with one element for each row.
        self._broadcasts = {
            i: eqn
            for path, numbers in self.row_pushes.items()
            for i in numbers
            if (eqn := self._values[path].as_broadcast(self._outvars[i])) is not None
        }
        self._asking = {path: self._asking_for(path) for path in tables}

    def ids(self, local: Sequence[jax.Array], batch: Any) -> dict[str, jax.Array]:
        """Compute which rows of the tables a batch looks up.

        Args:
            local: The values of the variables of ``local`` of the step.
            batch: The batch, as the step takes it.

        Returns:
            Table -> ids, int32 of shape (n,), in any order, with repetitions. `NO_ROW` asks for no row. Ids
            that look-ups do not clip may be out of range.
        """
        found = {path: [jnp.zeros(0, jnp.int32)] for path in self._asking}
        for path, asking in self._asking.items():
            indices = [eqn.invars[1] for eqn in asking]
            eqns = needed_equations(self._eqns, indices)[0]
            made = function_of(eqns, self._own, indices, self._constants)(*local, *jax.tree.leaves(batch))
            rows = self._values[path].rows
            found[path] += [asked_ids(eqn, each, rows) for eqn, each in zip(asking, made, strict=True)]
        return {path: jnp.concatenate(each) for path, each in found.items()}

    def work(
        self,
        rows: Mapping[str, TableRows],
        taken: Sequence[jax.Array],
        local: Sequence[jax.Array],
        batch: Any,
    ) -> tuple[list[jax.Array], list[jax.Array], Any]:
        """Compute the worker's part.

        Args:
            rows: Table -> the rows of the ids that it is asked for.
            taken: The values of the variables of ``takes``.
            local: As of `ids`.
            batch: The batch.

        Returns:
            What to push, the new values of ``local``, and the step's results. The pushes of ``row_pushes``
            have a row for each row of the table that is given.
        """
        values = AtomValues(self._constants.items())
        values.update(zip((self._invars[path] for path in self.takes), taken, strict=True))
        values.update(zip(self._own, [*local, *jax.tree.leaves(batch)], strict=True))
        pending: list[Equation] = []

        def read(atoms: Any) -> list[jax.Array]:
            if any(v not in values for v in variables_of(atoms)):
                values.compute(pending)
                pending.clear()
            return values.read(atoms)

        some = {
            path: SomeRows(of, self._invars.get(path), rows[path], read) for path, of in self._values.items()
        }
        for eqn in self._eqns:
            path = self._owners.get(id(eqn))
            if path is None:
                pending.append(eqn)
            elif self._values[path].makes(eqn):
                some[path].read(eqn.outvars[0])
            else:
                values[eqn.outvars[0]] = some[path].compute(eqn)
        results = list(self._outvars)
        for i, eqn in self._broadcasts.items():
            results[i] = eqn.invars[0]
        of_table = {i: some[path] for path, numbers in self.row_pushes.items() for i in numbers}
        made = [of_table[i].read(v) if i in of_table else read([v])[0] for i, v in enumerate(results)]
        pushes, new_local, outputs = jax.tree.unflatten(self._structure, made)
        return pushes, new_local, outputs

    def update(self, table: str, rows: Any) -> UpdatePart | None:
        """Return how some rows of a table, and of its slots, are updated; None if the step does not.

        The function takes rows of what is as long as the table, be it a variable or pushed, and all of other
        variables and pushed arrays.

        Args:
            table: The path of the table.
            rows: How many rows there are: a number, or a symbol of ``jax.export``.
        """
        part = self._parts[table]
        if part is None:
            return None
        run = by_rows(part.function, self._arguments(part), rows)

        def function(*args: jax.Array) -> list[jax.Array]:
            pushed = [
                widened(self._broadcasts[i], value, rows) if i in self._broadcasts else value
                for i, value in zip(part.pushes, args[len(part.takes) :], strict=True)
            ]
            return run(*args[: len(part.takes)], *pushed)

        return UpdatePart(part.updates, part.takes, part.pushes, function)

    def leaves_other_rows(self, table: str) -> bool:
        """Return whether rows of a table and its slots that are not looked up stay as they are, where the
        update is that of a whole table: their gradient is zero."""
        part = self._parts[table]
        if part is None:
            return True
        closed = with_inlined_calls(jax.make_jaxpr(part.function)(*self._arguments(part)))
        before = closed.jaxpr.invars[: len(part.takes)]
        without: dict[Atom, Any] = {}
        for number, v in zip(part.pushes, closed.jaxpr.invars[len(part.takes) :], strict=True):
            rest = self._values[table].rest(self._outvars[number])
            if number in self.row_pushes[table] and rest is not None:
                without[v] = bool(rest) if type_of(v).dtype == bool else ZERO if rest == 0 else None
        after = values_without(closed.jaxpr.eqns, without)
        old = dict(zip(part.takes, before, strict=True))
        made = zip(part.updates, closed.jaxpr.outvars, strict=True)
        return all(after.get(v, v) is old[path] for path, v in made)

    def other_groups(self) -> list[tuple[str, ...]]:
        """Return the groups of variables that the step updates, but for those of tables."""
        return [group for group in self._groups if self._parts.keys().isdisjoint(group)]

    def row_shape(self, number: int) -> jax.ShapeDtypeStruct:
        """Return the shape and dtype of one row of a pushed array of ``row_pushes``."""
        eqn = self._broadcasts.get(number)
        kind = type_of(eqn.invars[0] if eqn else self._outvars[number])
        return jax.ShapeDtypeStruct(kind.shape[1:], kind.dtype)

    def _part(self, table: str, tables: Collection[str]) -> UpdatePart | None:
        """Return the update of a table and its slots, if rows of them can be updated by themselves."""
        group = next((group for group in self._groups if table in group), None)
        if group is None:
            return None
        if len(set(tables).intersection(group)) > 1:
            raise NotByRowsError(table, f"{', '.join(group)} are updated by each other")
        part = self._step.update(group)
        if not part.pushes:
            raise NotByRowsError(table, "the step changes all of them, whatever it looks up")
        for number in part.pushes:
            if (setting := self._step.every_step.get(number)) is not None:
                raise NotByRowsError(
                    table, f"its optimizer has {setting}, which concerns all of them at every step"
                )
        try:
            by_rows(part.function, self._arguments(part), 1)
        except CoupledRowsError as exc:
            raise NotByRowsError(table, f"the update of {', '.join(group)} needs all of them: {exc}") from exc
        return part

    def _columns(self, table: str, part: UpdatePart | None) -> tuple[str, ...]:
        """Return the table, and the other variables with as many rows that its update takes."""
        if part is None:
            return (table,)
        rows = self._shapes[table].shape[0]
        others = {path: self._shapes[path] for path in (*part.updates, *part.takes) if path != table}
        tall = [path for path, shape in others.items() if shape.shape[:1] == (rows,)]
        if single := [path for path in part.updates if path != table and path not in tall]:
            raise NotByRowsError(table, f"its update changes {single[0]}, too, which has other rows")
        return (table, *tall)

    def _arguments(self, part: UpdatePart) -> list[jax.ShapeDtypeStruct]:
        return [*(self._shapes[path] for path in part.takes), *(self._step.pushed[i] for i in part.pushes)]

    def _values_of(self, table: str) -> RowValues:
        numbers = self.row_pushes[table]
        results = variables_of(self._outvars[i] for i in numbers)
        shape = self._shapes[table].shape
        values = RowValues(table, shape, self._eqns, self._invars.get(table), results)
        if any(v in values for i, v in enumerate(self._outvars) if i not in numbers):
            raise NotByRowsError(table, "the step returns them, or updates another variable by them")
        return values

    def _asking_for(self, table: str) -> list[Equation]:
        """Return the look-ups of a table, and the additions of rows to its gradient, each for other ids."""
        values = self._values[table]
        # What was looked up is pushed beside gradients as booleans, for optimizers that leave the other rows.
        results = [v for v in self._outvars if type_of(v).dtype != bool or is_number(v)]
        asking = [
            eqn
            for eqn in needed_equations(self._eqns, results)[0]
            if (values.takes(eqn) and values.looks_up(eqn)) or (values.makes(eqn) and values.adds_rows(eqn))
        ]
        asking.sort(key=lambda eqn: eqn.primitive is not lax.gather_p)
        eqns, start = needed_equations(self._eqns, [eqn.invars[1] for eqn in asking])
        own = {*self._own, *self._constants}
        read = [path for path, v in self._invars.items() if v in start - own]
        if read or any(id(eqn) in self._owners for eqn in eqns):
            what = ", ".join(read) or "its gradient"
            raise NotByRowsError(table, f"the ids that it is asked for depend on {what}")
        number = _numbering(eqns)
        distinct: dict[Any, Equation] = {}
        for eqn in asking:
            distinct.setdefault((number(eqn.invars[1]), eqn.params["mode"]), eqn)
        return list(distinct.values())


def _numbering(eqns: Sequence[Equation]) -> Callable[[Atom], Any]:
    """Return a function that gives values the same number if they are computed alike."""
    numbers: dict[Any, int] = {}
    of: dict[Atom, int] = {}

    def number(atom: Atom) -> Any:
        if isinstance(atom, jex.Literal):
            return str(atom.val), type_of(atom)
        return of.get(atom, atom)

    for eqn in eqns:
        for i, v in enumerate(eqn.outvars):
            key = eqn.primitive, str(eqn.params), i, tuple(map(number, eqn.invars))
            of[v] = numbers.setdefault(key, len(numbers))
    return number
