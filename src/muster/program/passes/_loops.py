"""Loops whose products of matrices are taken for all rounds at once, before or after the loop.

A recurrent layer multiplies its input by its weights in every round, and its gradient adds to that of the
weights in every round. Neither waits for the round before. A hundred small products in a loop take longer
than a large one, so ``scan`` equations are written anew.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster.program.gradients._gradients import needed_equations, run_equations
from muster.program.passes._jaxprs import contains, function_of, inputs_of, variables_of

Array = Any

_ADDITIONS = {lax.add_p, primitives.add_jaxvals_p}
_ARITHMETIC = {*_ADDITIONS, lax.mul_p, lax.neg_p, lax.sub_p}
_LAYOUTS = {lax.transpose_p, lax.reshape_p, lax.squeeze_p, lax.reduce_sum_p}
# What may come after the loop, for all rounds at once, if it is done to a product.
_AFTERWARDS = {
    *_ARITHMETIC,
    *_LAYOUTS,
    lax.broadcast_in_dim_p,
    lax.convert_element_type_p,
    lax.dot_general_p,
}


def with_wide_products(closed: jex.ClosedJaxpr) -> Callable[..., list[Array]]:
    """A function of flat arguments that computes a jaxpr, with products taken out of its loops.

    A product that does not depend on the round before is taken before the loop; one on which the next round
    does not depend, after it; and a sum over rounds of such products is one product. What the loop stacks and
    a little arithmetic makes of other stacks is made after it, too. A loop's products stay where it would
    have to stack more than twice as much for them. Loops in branches and in loops stay as they are.

    Results differ in the order of additions.
    """
    return lambda *args: _computed(closed, args)


def _computed(closed: jex.ClosedJaxpr, args: Sequence[Array]) -> list[Array]:
    jaxpr = closed.jaxpr
    env = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    pending: list[Any] = []
    for eqn in jaxpr.eqns:
        rewritten = _rewritten(eqn)
        if rewritten is None:
            pending.append(eqn)
            continue
        run_equations(pending, env)
        pending = []
        env.update(zip(eqn.outvars, rewritten(*[_read(env, v) for v in eqn.invars]), strict=True))
    run_equations(pending, env)
    return [_read(env, v) for v in jaxpr.outvars]


def _rewritten(eqn: Any) -> Callable[..., list[Array]] | None:
    """What computes a loop, or a jit with a loop in it, another way; None for all other equations."""
    if eqn.effects:
        return None
    if eqn.primitive is lax.scan_p:
        loop = _Loop(eqn)
        return loop if loop.early or loop.late or loop.sums else None
    if eqn.primitive is primitives.jit_p and contains(eqn.params["jaxpr"].jaxpr, lax.scan_p):
        shardings = (*eqn.params["in_shardings"], *eqn.params["out_shardings"])
        if not any(isinstance(sharding, jax.sharding.Sharding) for sharding in shardings):
            return with_wide_products(eqn.params["jaxpr"])
    return None


@dataclass(frozen=True)
class _Sum:
    """A carry to which every round adds a term, and which does nothing else.

    Attributes:
        carry: the variable, as a round gets it.
        addition: the equation that adds.
        layouts: equations that make the term of what is summed, in order, and may as well come after the sum.
        summed: the variable.
        product: the equation that makes it, if it is a product of two that differ from round to round.
    """

    carry: Any
    addition: Any
    layouts: tuple[Any, ...]
    summed: Any
    product: Any | None

    @property
    def equations(self) -> list[Any]:
        return [*([self.product] if self.product else []), *self.layouts, self.addition]

    @property
    def takes(self) -> list[Any]:
        """The variables of every round that the sum is made of."""
        return list(self.product.invars) if self.product else [self.summed]

    def over_rounds(self, start: Array, rounds: Mapping[Any, Array]) -> Array:
        """The carry after the last round, from values of all rounds, stacked."""
        total, layouts = self._total(rounds)
        given = layouts[0].invars if layouts else [v for v in self.addition.invars if v is not self.carry]
        result = self.addition.outvars
        (total,) = function_of([*layouts, self.addition], [*given, self.carry], result)(total, start)
        return total

    def _total(self, rounds: Mapping[Any, Array]) -> tuple[Array, tuple[Any, ...]]:
        """The sum over all rounds, and the layouts that are still to come."""
        if self.product is None:
            return jnp.sum(rounds[self.summed], axis=0), self.layouts
        left, right = (rounds[v] for v in self.product.invars)
        contracted, batched = self.product.params["dimension_numbers"]
        layouts = self.layouts
        if layouts and layouts[0].params.get("permutation") == (1, 0):
            # The other product, which need not be transposed.
            left, right, contracted, layouts = right, left, contracted[::-1], layouts[1:]
        if contracted == ((0,), (0,)) and batched == ((), ()):
            # One axis to sum over, for which XLA need not transpose what it multiplies.
            left, right = (array.reshape(-1, *array.shape[2:]) for array in (left, right))
        else:
            contracted = tuple((0, *(axis + 1 for axis in axes)) for axes in contracted)
            batched = tuple(tuple(axis + 1 for axis in axes) for axes in batched)
        params = self.product.params | {"dimension_numbers": (contracted, batched)}
        return lax.dot_general_p.bind(left, right, **params), layouts


class _Loop:
    """A ``scan`` equation, of which some equations are computed for all rounds at once.

    Attributes:
        early: equations to compute before the loop.
        late: equations to compute after it.
        sums: carries to compute after it.
    """

    def __init__(self, eqn: Any) -> None:
        self._params = eqn.params
        closed, consts, carries = (eqn.params[name] for name in ("jaxpr", "num_consts", "num_carry"))
        body = closed.jaxpr
        self._consts = dict(zip(body.constvars, closed.consts, strict=True))
        self._given = body.invars[:consts]
        self._carried = body.invars[consts : consts + carries]
        self._sliced = body.invars[consts + carries :]
        self._next = dict(zip(self._carried, body.outvars[:carries], strict=True))
        self._stacked = body.outvars[carries:]
        self._allowance = _bytes(variables_of([*self._sliced, *self._stacked]))

        # What the loop itself computes, and stacks.
        self._eqns = needed_equations(body.eqns, body.outvars)[0]
        self._stacks = list(dict.fromkeys(self._stacked)) if not _literals(self._stacked) else []
        self._uses = Counter(v for each in self._eqns for v in variables_of(each.invars))
        self._uses.update(variables_of(body.outvars))
        self._varying = _dependents(self._eqns, [*self._carried, *self._sliced])[1]
        self.early: list[Any] = []
        self._early_results: list[Any] = []
        self.late: list[Any] = []
        self._late_results: list[Any] = []
        self.sums: list[_Sum] = []
        if not _literals(self._stacked):
            self._plan_late()
            self._plan_early()

    def __call__(self, *operands: Array) -> list[Array]:
        given, carried = len(self._given), len(self._carried)
        consts = self._consts | dict(zip(self._given, operands[:given], strict=True))
        carries = dict(zip(self._carried, operands[given : given + carried], strict=True))
        rounds = dict(zip(self._sliced, operands[given + carried :], strict=True))
        self._for_all_rounds(self.early, self._early_results, consts, rounds)

        left = self._left()
        sliced = [v for v in dict.fromkeys([*inputs_of(self._eqns), *self._stacks]) if v in rounds]
        results = [*(self._next[v] for v in left), *self._stacks]
        a_round = function_of(self._eqns, [*left, *sliced], results, consts)

        def body(carry: list[Array], xs: list[Array]) -> tuple[list[Array], list[Array]]:
            values = a_round(*carry, *xs)
            return values[: len(left)], values[len(left) :]

        options = {name: self._params[name] for name in ("length", "reverse", "unroll")}
        last, stacks = lax.scan(body, [carries[v] for v in left], [rounds[v] for v in sliced], **options)
        carries |= zip(left, last, strict=True)
        rounds |= zip(self._stacks, stacks, strict=True)
        self._for_all_rounds(self.late, self._late_results, consts, rounds)
        for each in self.sums:
            carries[each.carry] = each.over_rounds(carries[each.carry], rounds)
        return [carries[v] for v in self._carried] + [rounds[v] for v in self._stacked]

    def _for_all_rounds(
        self,
        eqns: Sequence[Any],
        results: Sequence[Any],
        consts: Mapping[Any, Array],
        rounds: dict[Any, Array],
    ) -> None:
        """Compute equations of a round for all rounds at once, from and into stacks."""
        if results:
            taken = [v for v in inputs_of(eqns) if v in rounds]
            stacks = jax.vmap(function_of(eqns, taken, results, consts))(*[rounds[v] for v in taken])
            rounds.update(zip(results, stacks, strict=True))

    def _left(self) -> list[Any]:
        """The carries that the loop keeps."""
        gone = {each.carry for each in self.sums}
        return [v for v in self._carried if v not in gone]

    def _plan_late(self) -> None:
        """Find what may come after the loop, if the loop may keep what that takes."""
        sums = [each for each in map(self._sum, self._carried) if each]
        in_sums = {id(eqn) for each in sums for eqn in each.equations}
        totals = {v for each in sums for v in each.addition.outvars}
        core = needed_equations(self._eqns, [v for v in self._next.values() if v not in totals])[0]
        movable = self._movable(_without(self._eqns, core), in_sums)
        movable = [eqn for eqn in movable if id(eqn) not in in_sums]
        products = [v for eqn in movable if eqn.primitive is lax.dot_general_p for v in eqn.outvars]
        late, made = _dependents(movable, [v for v in products if v in self._varying])
        sums_of_products = [each for each in sums if each.product or each.summed in made]
        available = {*self._stacks, *self._sliced}
        if late or sums_of_products:
            taken = [*inputs_of(late), *(v for each in sums_of_products for v in each.takes)]
            kept = [v for v in dict.fromkeys(taken) if v in self._varying - made - available]
            if _bytes(kept) <= self._allowance:
                self._allowance -= _bytes(kept)
                self._stacks = [v for v in self._stacks if v not in made] + kept
                available.update(kept)
                self.sums = [each for each in sums if each in sums_of_products or each.summed in available]
        wanted = list(dict.fromkeys([*self._stacked, *(v for each in self.sums for v in each.takes)]))
        self._stacks = self._fewer_stacks()
        available = {*self._stacks, *self._sliced}
        self._late_results = [v for v in wanted if v not in available]
        self.late = needed_equations(self._eqns, self._late_results, list(available))[0]
        targets = [*(self._next[v] for v in self._left()), *self._stacks]
        self._eqns = needed_equations(self._eqns, targets)[0]

    def _fewer_stacks(self) -> list[Any]:
        """The stacks of which the others can be made by cheap arithmetic, for all rounds at once."""
        left = set(self._stacks)
        for v in [v for eqn in reversed(self._eqns) for v in eqn.outvars if v in left]:
            others = [*(left - {v}), *self._sliced]
            eqns, taken = needed_equations(self._eqns, [v], others)
            made_of = taken - {*self._given, *self._consts}
            if made_of and made_of <= set(others) and all(eqn.primitive in _ARITHMETIC for eqn in eqns):
                left.discard(v)
        return [v for v in self._stacks if v in left]

    def _plan_early(self) -> None:
        """Find products that may come before the loop, if their results are not too large."""
        targets = [*(self._next[v] for v in self._left()), *self._stacks]
        recurrent = _dependents(self._eqns, self._carried)[1]
        products = [
            eqn.outvars[0]
            for eqn in self._eqns
            if eqn.primitive is lax.dot_general_p
            and eqn.outvars[0] in self._varying - recurrent
            and all(e.primitive in _AFTERWARDS for e in needed_equations(self._eqns, eqn.outvars)[0])
        ]
        eqns, taken = needed_equations(self._eqns, targets, products)
        results = [v for v in products if v in taken]
        if results and _bytes(results) <= self._allowance:
            self.early, self._early_results = needed_equations(self._eqns, results)[0], results
            self._eqns = eqns

    def _movable(self, eqns: Sequence[Any], in_sums: set[int]) -> list[Any]:
        """The equations that may come after the loop: all that use their results may, too."""
        movable: list[Any] = []
        fixed: set[Any] = set()
        for eqn in reversed(eqns):
            if id(eqn) in in_sums or (eqn.primitive in _AFTERWARDS and not fixed.intersection(eqn.outvars)):
                movable.append(eqn)
            else:
                fixed.update(variables_of(eqn.invars))
        return movable[::-1]

    def _sum(self, carry: Any) -> _Sum | None:
        """What a carry adds up, if that is all that it does."""
        makers = {v: eqn for eqn in self._eqns for v in eqn.outvars}
        result = self._next[carry]
        if isinstance(result, jex.Literal) or self._uses[carry] != 1 or self._uses[result] != 1:
            return None
        addition = makers.get(result)
        if (
            addition is None
            or addition.primitive not in _ADDITIONS
            or carry not in variables_of(addition.invars)
        ):
            return None
        summed = next((v for v in variables_of(addition.invars) if v is not carry), None)
        if summed not in self._varying or not jnp.issubdtype(carry.aval.dtype, jnp.inexact):
            return None
        layouts: list[Any] = []
        while summed in makers and makers[summed].primitive in _LAYOUTS and self._uses[summed] == 1:
            layouts.insert(0, makers[summed])
            summed = makers[summed].invars[0]
        product = makers.get(summed)
        if product and not (
            product.primitive is lax.dot_general_p
            and self._uses[summed] == 1
            and self._varying.issuperset(product.invars)
        ):
            product = None
        return _Sum(carry, addition, tuple(layouts), summed, product)


def _dependents(eqns: Sequence[Any], sources: Iterable[Any]) -> tuple[list[Any], set[Any]]:
    """The equations that make or depend on any of the variables, in order, and the variables that do."""
    reached = set(sources)
    kept = []
    for eqn in eqns:
        if reached.intersection((*variables_of(eqn.invars), *eqn.outvars)):
            kept.append(eqn)
            reached.update(eqn.outvars)
    return kept, reached


def _without(eqns: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    excluded = set(map(id, others))
    return [eqn for eqn in eqns if id(eqn) not in excluded]


def _literals(atoms: Sequence[Any]) -> bool:
    return len(variables_of(atoms)) < len(atoms)


def _bytes(variables: Iterable[Any]) -> int:
    """Of one round's values."""
    return sum(math.prod(v.aval.shape) * v.aval.dtype.itemsize for v in variables)


def _read(env: dict[Any, Array], atom: Any) -> Array:
    return atom.val if isinstance(atom, jex.Literal) else env[atom]
