"""Inspect jaxprs, compute parts of them, turn parts into functions, and cut a step where the host reduces.

Between processes on CPUs, values are added outside of the compiled program. There `all_reduce_on_host` leaves
a marker wherever a step reduces values. `split_at_all_reduces` cuts the finished jaxpr at the markers: each
part is compiled by itself, and in between the host adds the values that one part returns and passes the sums
to the next.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core as jex
from jax.extend.core import primitives
from jax.interpreters import ad

from muster._errors import TraceError


def named(names: str) -> list[jex.Primitive]:
    """Return JAX's primitives of these names, which are separated by spaces."""
    return [getattr(primitives, f"{name}_p") for name in names.split()]


# These are new in JAX 0.12.
_NEW = [name for name in ("log2", "one_minus_square") if hasattr(primitives, f"{name}_p")]
ELEMENTWISE = named(
    "abs acos acosh add add_jaxvals and asin asinh atan atan2 atanh bitcast_convert_type cbrt ceil clamp clz "
    "convert_element_type copy cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt imag "
    "integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter not or "
    "population_count pow real reduce_precision rem round rsqrt select_n shift_left "
    "shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh "
    "xor"
) + named(" ".join(_NEW))


Atom = jex.Var | jex.Literal
Equation = jex.JaxprEqn


class AtomValues(dict[Atom, jax.Array]):
    """The values of variables that are known so far."""

    @classmethod
    def of(cls, closed: jex.ClosedJaxpr, args: Iterable[jax.Array]) -> "AtomValues":
        """Return the values of a jaxpr's constants and arguments."""
        return cls(zip([*closed.jaxpr.constvars, *closed.jaxpr.invars], [*closed.consts, *args], strict=True))

    def read(self, atoms: Iterable[Atom]) -> list[jax.Array]:
        """Return the values of variables and literals."""
        return [atom.val if isinstance(atom, jex.Literal) else self[atom] for atom in atoms]

    def compute(self, eqns: Sequence[Equation]) -> None:
        """Compute equations, and add their results."""
        if not eqns:
            return
        made = dict.fromkeys(outputs_of(eqns))
        used = [v for v in inputs_of(eqns) if v not in made]
        self.update(zip(made, function_of(eqns, used, [*made])(*self.read(used)), strict=True))


def type_of(atom: Atom) -> jax.core.ShapedArray:
    """Return the shape and dtype of a variable or literal."""
    return atom.aval  # type: ignore[return-value]  # every value in a step is an array


def is_number(atom: Atom) -> bool:
    """Return whether a variable or literal has a single element."""
    count: int = math.prod(type_of(atom).shape)
    return count == 1


def variables_of(atoms: Iterable[Atom]) -> list[jex.Var]:
    """Return the atoms without literals."""
    return [atom for atom in atoms if not isinstance(atom, jex.Literal)]


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many operands of a ``scan`` are constants, and how many carries; slices follow.

    JAX has no public name for that: up to 0.11 the parameters have two numbers, and in 0.12 a tree of the
    operands in three groups. Tried with 0.10.2 and 0.12.0.1.
    """
    if "ft_in" in params:
        consts, carries, _ = (len(group) for group in params["ft_in"].unpack())
        return consts, carries
    return params["num_consts"], params["num_carry"]


def inputs_of(eqns: Iterable[Equation]) -> list[jex.Var]:
    """Return all variables that equations take, without duplicates, in order of first use."""
    return list(dict.fromkeys(v for eqn in eqns for v in variables_of(eqn.invars)))


def outputs_of(eqns: Iterable[Equation]) -> list[jex.Var]:
    """Return all variables that equations compute, in order."""
    return [v for eqn in eqns for v in eqn.outvars]


def contains(jaxpr: jex.Jaxpr | jex.ClosedJaxpr, primitive: jex.Primitive) -> bool:
    """Return whether a jaxpr, or the body of a loop or branch in it, has an equation of this primitive."""
    return any(eqn.primitive is primitive or body_contains(eqn, primitive) for eqn in jaxpr.eqns)


def body_contains(eqn: Equation, primitive: jex.Primitive) -> bool:
    """Return whether the body of an equation (a loop, a branch, a jit) contains the primitive."""
    return any(contains(jaxpr, primitive) for jaxpr in jex.jaxprs_in_params(eqn.params))


def has_shardings(eqn: Equation) -> bool:
    """Return whether a jit says how its arguments or results are sharded."""
    shardings = (*eqn.params["in_shardings"], *eqn.params["out_shardings"])
    return any(isinstance(sharding, jax.sharding.Sharding) for sharding in shardings)


def with_inlined_jits(closed: jex.ClosedJaxpr, primitive: jex.Primitive) -> jex.ClosedJaxpr:
    """Put the equations of each jit that contains the primitive in the place of the jit."""

    def body_of(eqn: Equation) -> jex.ClosedJaxpr | None:
        is_inlined = eqn.primitive is primitives.jit_p and body_contains(eqn, primitive)
        return eqn.params["jaxpr"] if is_inlined else None

    return _with_inlined(closed, body_of)


def with_inlined_calls(closed: jex.ClosedJaxpr) -> jex.ClosedJaxpr:
    """Put the equations of each call of a function in the place of the call, but for rematerialized ones.

    Those are jits, but for ones with shardings, and functions that have derivatives of their own.
    """

    def body_of(eqn: Equation) -> jex.ClosedJaxpr | None:
        if eqn.primitive is primitives.jit_p:
            return None if has_shardings(eqn) else eqn.params["jaxpr"]
        return eqn.params["call_jaxpr"] if eqn.primitive in _CALLS else None

    return _with_inlined(closed, body_of)


_CALLS = {primitives.closed_call_p, primitives.custom_jvp_call_p, primitives.custom_vjp_call_p}


def _with_inlined(
    closed: jex.ClosedJaxpr, body_of: Callable[[Equation], jex.ClosedJaxpr | None]
) -> jex.ClosedJaxpr:
    if not any(map(body_of, closed.jaxpr.eqns)):
        return closed

    def compute(*args: jax.Array) -> list[jax.Array]:
        values = AtomValues.of(closed, args)
        for eqn in closed.jaxpr.eqns:
            if (body := body_of(eqn)) is None:
                values.compute([eqn])
            else:
                flat = jex.jaxpr_as_fun(_with_inlined(body, body_of))
                values.update(zip(eqn.outvars, flat(*values.read(eqn.invars)), strict=True))
        return values.read(closed.jaxpr.outvars)

    return jax.make_jaxpr(compute)(*closed.in_avals)


def needed_equations(
    eqns: Sequence[Equation],
    targets: Iterable[Atom],
    known: Iterable[Atom] = (),
    *,
    with_effects: bool = False,
) -> tuple[list[Equation], set[jex.Var]]:
    """Return the equations that compute the targets, in order, and the variables that those start from.

    Args:
        eqns: All equations, in order.
        targets: The variables to compute.
        known: Variables with known values; the equations that compute them are left out.
        with_effects: Whether equations that do something besides, such as printing, are needed, too.
    """
    wanted = set(variables_of(targets))
    values = set(variables_of(known))
    kept = []
    for eqn in reversed(eqns):
        if (with_effects and eqn.effects) or any(v in wanted and v not in values for v in eqn.outvars):
            kept.append(eqn)
            wanted.difference_update(eqn.outvars)
            wanted.update(variables_of(eqn.invars))
    return kept[::-1], wanted


def dependents(eqns: Iterable[Equation], variables: Iterable[Atom]) -> tuple[list[Equation], set[jex.Var]]:
    """Return the equations that depend on any of the variables, in order, and all variables reached."""
    reached = set(variables_of(variables))
    kept = []
    for eqn in eqns:
        if reached.intersection(variables_of(eqn.invars)):
            kept.append(eqn)
            reached.update(eqn.outvars)
    return kept, reached


def without(eqns: Iterable[Equation], others: Iterable[Equation]) -> list[Equation]:
    """Return the equations that are not among the others."""
    excluded = set(map(id, others))
    return [eqn for eqn in eqns if id(eqn) not in excluded]


def function_of(
    eqns: Sequence[Equation],
    arguments: Sequence[jex.Var],
    results: Sequence[Atom],
    constants: Mapping[jex.Var, jax.Array] | None = None,
) -> Callable[..., list[jax.Array]]:
    """Make a function that computes equations.

    Args:
        eqns: The equations, in order.
        arguments: The variables whose values the function takes.
        results: The variables or literals whose values it returns.
        constants: The values of other variables that the equations use but do not compute.
    """
    constants = constants or {}
    used = [v for v in dict.fromkeys([*inputs_of(eqns), *variables_of(results)]) if v in constants]
    effects = set().union(*(eqn.effects for eqn in eqns))
    names = jex.DebugInfo("muster", "part of a step", ("",) * len(arguments), ("",) * len(results))
    jaxpr = jex.Jaxpr(used, list(arguments), list(results), list(eqns), effects, names)
    return jex.jaxpr_as_fun(jex.ClosedJaxpr(jaxpr, [constants[v] for v in used]))  # type: ignore[no-any-return]


def levels_of(
    eqns: Iterable[Equation], marker: jex.Primitive
) -> tuple[list[list[Equation]], list[list[Equation]]]:
    """Group equations by level: the largest number of markers on a path of data that leads to them.

    Args:
        eqns: All equations, in order.
        marker: The primitive of markers.

    Returns:
        The other equations and the markers, each as one list per level, from level 0 on. Equations of level
        1 use results of level 0's markers, and so on.
    """
    computed: list[list[Equation]] = [[]]
    marked: list[list[Equation]] = [[]]
    level: dict[jex.Var, int] = {}
    for eqn in eqns:
        at = max((level.get(v, 0) for v in variables_of(eqn.invars)), default=0)
        if eqn.primitive is marker:
            marked[at].append(eqn)
            at += 1
            if at == len(marked):
                marked.append([])
                computed.append([])
        else:
            computed[at].append(eqn)
        level.update(dict.fromkeys(eqn.outvars, at))
    return computed, marked


_all_reduce_p = jex.Primitive("muster_all_reduce_on_host")
_all_reduce_p.def_abstract_eval(lambda value: value)
ad.deflinear2(_all_reduce_p, lambda cotangent, value: [all_reduce_on_host(cotangent)])


def all_reduce_on_host(value: jax.Array) -> jax.Array:
    """Add a value over all processes, by a marker that `split_at_all_reduces` cuts at.

    Args:
        value: A flat array, of the same length and dtype in all processes.
    """
    return _all_reduce_p.bind(value)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Segment:
    """A part of a step. All values of a step are numbered, its flat arguments first.

    Attributes:
        function: Takes and returns arrays; the last part returns the flat results of the step.
        takes: The numbers of its arguments.
        donates: The positions of the arguments that it may overwrite.
        sums: Its first results are to be added over all processes; these are the numbers of the sums.
        keeps: The numbers of its other results; none in the last part.
        lengths: The lengths of the results that are to be added.
    """

    function: Callable[..., list[jax.Array]]
    takes: tuple[int, ...]
    donates: tuple[int, ...]
    sums: tuple[int, ...]
    keeps: tuple[int, ...]
    lengths: tuple[int, ...]


def split_at_all_reduces(
    function: Callable[..., Any], *args: Any, donated: int
) -> tuple[list[Segment], jax.tree_util.PyTreeDef]:
    """Cut a step at its reductions over all processes.

    Args:
        function: The step; it calls `all_reduce_on_host`.
        args: Arrays or ``jax.ShapeDtypeStruct`` s, in nested structures.
        donated: How many of the flat arguments, from the first on, may be overwritten.

    Returns:
        The parts in order, and the structure of the results.

    Raises:
        TraceError: `all_reduce_on_host` is called inside of a loop or a branch, where a step cannot be cut.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
    closed = with_inlined_jits(closed, _all_reduce_p)
    jaxpr = closed.jaxpr
    inside = next((eqn.primitive.name for eqn in jaxpr.eqns if body_contains(eqn, _all_reduce_p)), None)
    if inside is not None:
        raise TraceError(
            f"Values are reduced over the workers inside of a {inside}, where workers on CPUs cannot do it, "
            "nor replicas with different numbers of rows. Apply gradients and update metrics outside of "
            "loops and branches."
        )
    constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    needed, _ = needed_equations(jaxpr.eqns, jaxpr.outvars, with_effects=True)
    computed, reduced = levels_of(needed, _all_reduce_p)
    wanted = [inputs_of([*before, *markers]) for before, markers in zip(computed, reduced, strict=True)]
    wanted[-1] += variables_of(jaxpr.outvars)
    last_use = {v: level for level, variables in enumerate(wanted) for v in variables}

    numbers = {v: number for number, v in enumerate(jaxpr.invars)}
    overwritable = set(jaxpr.invars[:donated])
    parts = []
    for level, eqns in enumerate(computed):
        made = dict.fromkeys(outputs_of(eqns))
        # In the order of the step's arguments and results: JAX lets the next result of a donated argument's
        # shape have its memory, and copies what another one is made of.
        taken = {v for v in wanted[level] if v not in made and v not in constants}
        takes = sorted(taken, key=numbers.__getitem__)
        sums = [eqn.outvars[0] for eqn in reduced[level]]
        addends = [eqn.invars[0] for eqn in reduced[level]]
        keeps = [v for v in made if last_use.get(v, -1) > level]
        results = [*addends, *keeps] if level < len(computed) - 1 else jaxpr.outvars
        numbers.update({v: len(numbers) + i for i, v in enumerate([*sums, *keeps])})
        parts.append(
            Segment(
                function=function_of(eqns, takes, results, constants),
                takes=tuple(numbers[v] for v in takes),
                donates=_reusable(takes, results, {v for v in overwritable if last_use.get(v) == level}),
                sums=tuple(numbers[v] for v in sums),
                keeps=tuple(numbers[v] for v in keeps),
                lengths=tuple(math.prod(type_of(v).shape) for v in addends),
            )
        )
        overwritable.update(keeps)
    return parts, jax.tree.structure(shapes)


def _reusable(takes: Sequence[Atom], results: Sequence[Atom], overwritable: set[jex.Var]) -> tuple[int, ...]:
    """Return the positions of the arguments whose memory a result can take over."""
    wanted = Counter((type_of(v).shape, type_of(v).dtype) for v in results)
    places = []
    for place, v in enumerate(takes):
        kind = type_of(v).shape, type_of(v).dtype
        if v in overwritable and wanted[kind]:
            wanted[kind] -= 1
            places.append(place)
    return tuple(places)
