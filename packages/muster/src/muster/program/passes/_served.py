"""Divide a step between a worker and servers: the worker computes gradients, servers apply them.

Where code applies gradients, `mark_pushed` leaves a marker. `split_at_pushes` divides the finished jaxpr
there: the worker computes what leads to the markers, and pushes it; the servers compute what follows from
that, on variables that only they hold. So a server needs no optimizer: whatever the code does with gradients,
schedules and clipping included, becomes its update.

A moving average is computed by the servers, too: a worker pushes what goes into it. So a worker that is late
changes the value that is there then, and does not put an old one in its place. (In TensorFlow
``assign_moving_average`` computes where the variable is.) Other new values a worker computes itself, and
those that are marked whatever they depend on: it pushes what is added to the variable, or the value.
"""

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax import lax
from jax.extend import core as jex

from muster._errors import TraceError
from muster.program.passes._averages import Average, Averages
from muster.program.passes._jaxprs import (
    Atom,
    AtomValues,
    Equation,
    body_contains,
    function_of,
    is_number,
    needed_equations,
    type_of,
    variables_of,
    with_inlined_jits,
)
from muster.program.passes._sums import with_single_sums

push_p = jex.Primitive("muster_push")
push_p.def_abstract_eval(lambda value, **_: value)
# Whether gradients are marked; part of the key under which JAX caches traces.
_MARKING = jax.make_user_context(False)


def mark_pushed(
    gradients: Sequence[jax.Array | None], every_step: Sequence[str | None] = ()
) -> list[jax.Array | None]:
    """Mark gradients that are about to be applied, where the step is for `split_at_pushes`.

    Args:
        gradients: The gradients; or new values of variables, which are assigned as they are.
        every_step: For each the optimizer's setting by which it changes all elements of the variable at every
            step, also where the gradient is zero, if it has one.
    """
    if not _MARKING.value:
        return list(gradients)
    return [
        None if gradient is None else push_p.bind(gradient, every_step=setting)
        for gradient, setting in itertools.zip_longest(gradients, every_step)
    ]


def as_marked() -> contextlib.AbstractContextManager[None]:
    """Run code that applies gradients which are marked already."""
    context: contextlib.AbstractContextManager[None] = _MARKING(False)
    return context


def marking() -> contextlib.AbstractContextManager[None]:
    """Trace code for `split_at_pushes`."""
    context: contextlib.AbstractContextManager[None] = _MARKING(True)
    return context


@dataclass(frozen=True)
class UpdatePart:
    """The update of some variables.

    Attributes:
        updates: The paths of the variables.
        takes: The paths of the variables that the update reads, those of ``updates`` among them.
        pushes: The numbers of the pushed arrays that it reads.
        function: Takes the values of ``takes`` and of ``pushes``; returns those of ``updates``.
    """

    updates: tuple[str, ...]
    takes: tuple[str, ...]
    pushes: tuple[int, ...]
    function: Callable[..., list[jax.Array]]


class WorkerServerSplit:
    """A step that is divided between a worker and servers.

    Attributes:
        takes: The paths of the variables on servers that the worker reads.
        local: The paths of the worker's own variables.
        pushed: The shape and dtype of each array that the worker pushes.
        updated: The paths of the variables that servers update, in order.
        every_step: The numbers of pushed gradients -> the setting of their optimizer by which it changes all
            elements of a variable at every step, also where the gradient is zero.
        shapes: Path -> shape and dtype of each variable of the step.
        effects: What the step does beside computing, such as printing; neither part does it.
    """

    def __init__(
        self,
        closed: jex.ClosedJaxpr,
        state: Sequence[str],
        local: Collection[str],
        results: Any,
        *,
        returns_updated: bool = False,
    ) -> None:
        jaxpr = closed.jaxpr
        self.effects = jaxpr.effects
        self._constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        self._state = dict(zip(state, jaxpr.invars, strict=False))
        self._batch = jaxpr.invars[len(state) :]
        self.shapes = {
            path: jax.ShapeDtypeStruct(type_of(v).shape, type_of(v).dtype) for path, v in self._state.items()
        }
        self._eqns, marked = _without_markers(jaxpr.eqns)

        def unmarked(atom: Atom) -> Atom:
            return atom if isinstance(atom, jex.Literal) else marked.get(atom, atom)

        new = dict(zip(state, jaxpr.outvars, strict=False))
        self._outputs = [*map(unmarked, jaxpr.outvars[len(state) :])]
        self._structure = jax.tree.structure(results)
        self.local = tuple(path for path in state if path in local)
        self._new_local = [unmarked(new[path]) for path in self.local]
        sources = _Sources(jaxpr, [*self._batch, *(self._state[path] for path in self.local)])
        if not returns_updated:
            self._refuse_updated([*map(new.__getitem__, self.local), *jaxpr.outvars[len(state) :]], sources)

        # What updates read of the worker, or the path of what it assigns, or that of an average and the
        # number of what goes into it -> what it computes.
        self._pushes: dict[Atom | str | tuple[str, int], Atom] = {}
        targets: dict[str, Atom] = {}
        assigned: dict[str, Atom] = {}
        self._added: set[str] = set()
        self._averages: dict[str, Average] = {}
        self._adds = {eqn.outvars[0]: eqn for eqn in self._eqns if eqn.primitive is lax.add_p}
        averages = Averages(
            self._eqns, self._constants, lambda v: sources.of_worker(v) or sources.of_pushes(v)
        )
        for path in state:
            value = unmarked(new[path])
            is_marked = value is not new[path]
            if path in local or value is self._state[path]:
                continue
            if sources.of_pushes(value) and not is_marked:
                targets[path] = value
            elif (addend := self._addend(path, value)) is not None:
                assigned[path] = addend
                self._added.add(path)
            elif not sources.of_worker(value) and not is_marked:
                targets[path] = value
            elif (average := averages.find(self._state[path], value)) is not None:
                self._averages[path] = average
            else:
                assigned[path] = value
        self._new = targets
        self._updates = self._cut(jaxpr.eqns, list(targets.values()), sources)
        self._makers = {v: i for i, eqn in enumerate(self._updates) for v in eqn.outvars}
        self._pushes.update(assigned)
        for path, average in self._averages.items():
            self._pushes.update(((path, i), operand) for i, operand in enumerate(average.operands))
        self._pushes = {v: unmarked(value) for v, value in self._pushes.items()}
        # A step has thousands of variables: what is looked up for each of them is found by key.
        self._number_of_push = {v: i for i, v in enumerate(self._pushes)}
        self._path_of = {v: path for path, v in self._state.items()}
        self._number_of_path = {path: i for i, path in enumerate(self._state)}
        settings = {eqn.outvars[0]: eqn.params["every_step"] for eqn in jaxpr.eqns if eqn.primitive is push_p}
        self.every_step = {i: settings[v] for i, v in enumerate(self._pushes) if settings.get(v) is not None}
        self._assigned = frozenset(assigned)
        self.updated = (*targets, *assigned, *self._averages)
        self.pushed = [
            jax.ShapeDtypeStruct(type_of(v).shape, type_of(v).dtype) for v in self._pushes.values()
        ]

        wanted = [*self._pushes.values(), *self._new_local, *self._outputs]
        self._work, start = needed_equations(self._eqns, wanted)
        self.takes = tuple(p for p in state if p not in local and self._state[p] in start)
        arguments = [self._state[path] for path in (*self.takes, *self.local)]
        self._run = function_of(self._work, [*arguments, *self._batch], wanted, self._constants)

    def work(
        self, taken: Sequence[jax.Array], local: Sequence[jax.Array], batch: Any
    ) -> tuple[list[jax.Array], list[jax.Array], Any]:
        """Compute the worker's part.

        Args:
            taken: The values of the variables of ``takes``.
            local: The values of the variables of ``local``.
            batch: The batch, as the step takes it.

        Returns:
            What to push, the new values of ``local``, and the step's results.
        """
        made = self._run(*taken, *local, *jax.tree.leaves(batch))
        rest = len(self._pushes) + len(self.local)
        return (
            made[: len(self._pushes)],
            made[len(self._pushes) : rest],
            jax.tree.unflatten(self._structure, made[rest:]),
        )

    def update(self, paths: Iterable[str]) -> UpdatePart:
        """Return how some of the variables of ``updated`` are updated."""
        paths = tuple(paths)
        targets = {path: self._new[path] for path in paths if path in self._new}
        eqns, start = self._needed(targets.values())
        # In the order of the paths, so that all workers have the same text of it.
        assigned, averages = ([p for p in paths if p in each] for each in (self._assigned, self._averages))
        added = self._added.intersection(paths)
        own = {*targets, *added, *averages}
        # What the worker has of its own comes with what it pushes.
        takes = tuple(sorted(self._taken(start) | own, key=self._number_of_path.__getitem__))
        brought = {
            *start,
            *paths,
            *((p, i) for p in averages for i in range(len(self._averages[p].operands))),
        }
        numbers = self._number_of_push
        pushes = tuple(sorted(numbers[v] for v in brought if v in numbers))
        inputs = [self._state[path] for path in takes]
        read = sorted((v for v in start if v in numbers), key=numbers.__getitem__)
        run = function_of(eqns, [*inputs, *read], [*targets.values()], self._constants)

        def function(*args: jax.Array) -> list[jax.Array]:
            state = dict(zip(takes, args, strict=False))
            pushed = dict(zip(keys, args[len(takes) :], strict=True))
            new = dict(zip(targets, run(*state.values(), *(pushed[v] for v in read)), strict=True))
            for path in averages:
                average = self._averages[path]
                operands = (pushed[path, i] for i in range(len(average.operands)))
                (new[path],) = average.function(state[path], *operands)
            for path in assigned:
                new[path] = state[path] + pushed[path] if path in added else pushed[path]
            return [new[path] for path in paths]

        keys = sorted((v for v in brought if v in numbers), key=numbers.__getitem__)
        return UpdatePart(paths, takes, pushes, function)

    def groups(self) -> list[tuple[str, ...]]:
        """Return the paths of ``updated`` in groups that one server must hold, in order.

        Variables belong together if one's update reads the other and that is more than a number, such as a
        weight and its optimizer's slots. Numbers are cheap: each server that reads one has its own.
        """
        group: dict[str, list[str]] = {path: [path] for path in self.updated}
        for path in self.updated:
            _, start = self._needed([self._new[path]] if path in self._new else [])
            for other in self._taken(start):
                joined, members = group[path], group.get(other)
                if members is None or members is joined or not type_of(self._state[other]).shape:
                    continue
                joined += members
                group.update(dict.fromkeys(members, joined))
        order = {path: number for number, path in enumerate(self.updated)}
        found = {id(members): members for members in group.values()}
        return [tuple(sorted(members, key=order.__getitem__)) for members in found.values()]

    def _addend(self, path: str, value: Atom) -> Atom | None:
        """Return what is added to a variable, if its new value is the old one and something else."""
        variable = self._state[path]
        maker = None if isinstance(value, jex.Literal) else self._adds.get(value)
        if maker is None or variable not in variables_of(maker.invars):
            return None
        return next((v for v in maker.invars if v is not variable), variable)

    def _needed(self, targets: Iterable[Atom]) -> tuple[list[Equation], set[jex.Var]]:
        """Return the equations of updates that compute the targets, and what these start from.

        It is what `needed_equations` returns, in the time of what is needed, not of all updates.
        """
        found: set[int] = set()
        start = set(variables_of(targets))
        left = list(start)
        while left:
            v = left.pop()
            number = None if v in self._pushes else self._makers.get(v)
            if number is not None and number not in found:
                found.add(number)
                new = set(variables_of(self._updates[number].invars)) - start
                start |= new
                left += new
        eqns = [self._updates[number] for number in sorted(found)]
        return eqns, start.difference(*(eqn.outvars for eqn in eqns))

    def _taken(self, start: Iterable[jex.Var]) -> set[str]:
        """Return the paths of the variables on servers among some that updates start from."""
        return {self._path_of[v] for v in start if v in self._path_of and v not in self._pushes}

    def _cut(self, eqns: Sequence[Equation], targets: Sequence[Atom], sources: "_Sources") -> list[Equation]:
        """Find what updates read of the worker; return the equations of the updates, in order."""
        wanted = set(variables_of(targets))
        kept = []
        for eqn in reversed(eqns):
            if not wanted.intersection(eqn.outvars):
                continue
            if eqn.primitive is push_p:
                self._pushes[eqn.outvars[0]] = eqn.invars[0]
            elif sources.is_computed_by_worker(eqn):
                self._pushes.update({v: v for v in eqn.outvars if v in wanted})
            else:
                kept.append(eqn)
                wanted.update(variables_of(eqn.invars))
        own = [*self._batch, *(self._state[path] for path in self.local)]
        self._pushes.update({v: v for v in own if v in wanted})
        self._pushes = dict(reversed(self._pushes.items()))  # in the order of the code
        return kept[::-1]

    def _refuse_updated(self, atoms: Sequence[Atom], sources: "_Sources") -> None:
        if any(map(sources.of_pushes, atoms)):
            raise TraceError(
                "The step returns or keeps something that depends on a variable after it was updated, which "
                "happens on a parameter server later. Use its value from before: read it above the call that "
                "applies gradients."
            )


def split_at_pushes(
    function: Callable[..., tuple[dict[str, jax.Array], Any]],
    state: dict[str, Any],
    batch: Any,
    local: Collection[str],
    *,
    returns_updated: bool = False,
) -> WorkerServerSplit:
    """Divide a step between a worker and servers.

    Args:
        function: ``(state, batch) -> (state, results)``; it calls `mark_pushed`.
        state: Path -> array or ``jax.ShapeDtypeStruct``.
        batch: Arrays or ``jax.ShapeDtypeStruct`` s, in a nested structure.
        local: The paths of variables that each worker keeps for itself.
        returns_updated: Whether results may depend on variables after they were updated: the worker computes
            their updates, too, for itself.

    Raises:
        TraceError: Gradients are applied inside of a loop or a branch, or something depends on a variable
            after it was updated and may not.
    """
    with marking():
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(state, batch)
    closed = _with_selected_branches(with_inlined_jits(closed, push_p))
    closed = with_single_sums(closed, len(state), push_p)
    inside = next((eqn.primitive.name for eqn in closed.jaxpr.eqns if body_contains(eqn, push_p)), None)
    if inside is not None:
        raise TraceError(
            f"Gradients are applied inside of a {inside}, where a step cannot be divided between a worker "
            "and parameter servers. Apply them outside of loops and branches."
        )
    return WorkerServerSplit(closed, sorted(state), local, shapes[1], returns_updated=returns_updated)


class _Sources:
    """Finds out what each value of a step is computed from: batches, gradients, or variables on servers.

    Args:
        jaxpr: The step.
        of_worker: The values that only the worker has.
    """

    def __init__(self, jaxpr: jex.Jaxpr, of_worker: Iterable[jex.Var]) -> None:
        self._of_worker = set(of_worker)
        self._of_pushes: set[Atom] = set()
        self._of_servers = set(jaxpr.invars) - self._of_worker
        for eqn in jaxpr.eqns:
            if eqn.primitive is push_p:
                self._of_pushes.update(eqn.outvars)
                continue
            for known in (self._of_worker, self._of_pushes, self._of_servers):
                if known.intersection(variables_of(eqn.invars)):
                    known.update(eqn.outvars)

    def of_worker(self, atom: Atom) -> bool:
        """Return whether a value depends on the batch or the worker's own variables, but for gradients."""
        return not isinstance(atom, jex.Literal) and atom in self._of_worker

    def of_pushes(self, atom: Atom) -> bool:
        """Return whether a value depends on a gradient at its marker."""
        return not isinstance(atom, jex.Literal) and atom in self._of_pushes

    def is_computed_by_worker(self, eqn: Equation) -> bool:
        """Return whether the worker computes an equation that an update needs.

        That is what depends on the batch, and numbers that depend on gradients alone, such as norms: of
        those a server has only its own.
        """
        result = eqn.outvars[0]
        if self.of_worker(result) and not self.of_pushes(result):
            return True
        reduces = is_number(result) and not all(map(is_number, eqn.invars))
        return reduces and self.of_pushes(result) and result not in self._of_servers


def _without_markers(eqns: Iterable[Equation]) -> tuple[list[Equation], dict[Atom, Atom]]:
    """Return equations without markers, and the value that each marker's result stands for."""
    marked: dict[Atom, Atom] = {}
    kept = []
    for eqn in eqns:
        invars = [v if isinstance(v, jex.Literal) else marked.get(v, v) for v in eqn.invars]
        if eqn.primitive is push_p:
            marked[eqn.outvars[0]] = invars[0]
        else:
            kept.append(eqn.replace(invars=invars))
    return kept, marked


def _with_selected_branches(closed: jex.ClosedJaxpr) -> jex.ClosedJaxpr:
    """Compute both branches where gradients are applied or not, so that variables have updates of their own.

    Optimizers have such branches to skip gradients that are not finite, and to accumulate others first.
    """
    jaxpr = closed.jaxpr
    sources = _Sources(jaxpr, ())

    def is_selected(eqn: Equation) -> bool:
        return eqn.primitive is lax.cond_p and any(map(sources.of_pushes, eqn.invars))

    if not any(map(is_selected, jaxpr.eqns)):
        return closed

    def compute(*args: jax.Array) -> list[jax.Array]:
        values = AtomValues.of(closed, args)
        for eqn in jaxpr.eqns:
            if not is_selected(eqn):
                values.compute([eqn])
                continue
            index, *operands = values.read(eqn.invars)
            branches = [jex.jaxpr_as_fun(branch)(*operands) for branch in eqn.params["branches"]]
            chosen = index.astype(bool) if len(branches) == 2 else index
            new = [lax.select_n(chosen, *each) for each in zip(*branches, strict=True)]
            values.update(zip(eqn.outvars, new, strict=True))
        return values.read(jaxpr.outvars)

    return jax.make_jaxpr(compute)(*closed.in_avals)
