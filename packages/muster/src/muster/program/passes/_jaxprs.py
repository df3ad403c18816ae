"""Inspect jaxprs, compute parts of them, and turn parts into functions."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.extend import core as jex
from jax.extend.core import primitives


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


class Values(dict[Atom, jax.Array]):
    """The values of variables that are known so far."""

    @classmethod
    def of(cls, closed: jex.ClosedJaxpr, args: Iterable[jax.Array]) -> "Values":
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
        values = Values.of(closed, args)
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
        if (with_effects and eqn.effects) or (wanted - values).intersection(eqn.outvars):
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
