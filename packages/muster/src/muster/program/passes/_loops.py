"""Take matrix products out of loops: one product for all iterations, before or after the loop.

A recurrent layer multiplies its input by its weights in every iteration, and adds to the gradient of the
weights in every iteration. Neither depends on the iteration before. A hundred small products in a loop take
longer than a large one, so ``scan`` equations are rewritten.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster.program.passes._jaxprs import (
    Atom,
    AtomValues,
    Equation,
    contains,
    dependents,
    function_of,
    has_shardings,
    inputs_of,
    needed_equations,
    outputs_of,
    scan_counts,
    type_of,
    variables_of,
    without,
)

_ADDITIONS = {lax.add_p, primitives.add_jaxvals_p}
_ARITHMETIC = {*_ADDITIONS, lax.mul_p, lax.neg_p, lax.sub_p}
_LAYOUTS = {lax.transpose_p, lax.reshape_p, lax.squeeze_p, lax.reduce_sum_p}
# What may be computed after the loop, for all iterations at once, from a product.
_AFTERWARDS = {*_ARITHMETIC, *_LAYOUTS, lax.broadcast_in_dim_p, lax.convert_element_type_p, lax.dot_general_p}


def with_wide_products(closed: jex.ClosedJaxpr) -> Callable[..., list[jax.Array]]:
    """Make a function of flat arguments that computes a jaxpr, with products taken out of its loops.

    A product that does not depend on the iteration before is computed before the loop. One on which the next
    iteration does not depend is computed after it; a sum of such products over the iterations becomes one
    product. Stacked results that simple arithmetic makes of other stacks are computed after the loop, too.
    Products stay where the loop would have to stack more than twice as much for them. Loops inside of
    branches and of other loops are left unchanged, and those whose number of iterations is not known.

    Results differ in the order of additions.
    """
    return lambda *args: _computed(closed, args)


def _computed(closed: jex.ClosedJaxpr, args: Sequence[jax.Array]) -> list[jax.Array]:
    values = AtomValues.of(closed, args)
    pending: list[Equation] = []
    for eqn in closed.jaxpr.eqns:
        rewritten = _rewritten(eqn)
        if rewritten is None:
            pending.append(eqn)
            continue
        values.compute(pending)
        pending = []
        values.update(zip(eqn.outvars, rewritten(*values.read(eqn.invars)), strict=True))
    values.compute(pending)
    return values.read(closed.jaxpr.outvars)


def _rewritten(eqn: Equation) -> Callable[..., list[jax.Array]] | None:
    """Return a faster function for a loop, or for a jit that contains one; None for all other equations."""
    if eqn.effects:
        return None
    if eqn.primitive is lax.scan_p:
        if not isinstance(eqn.params["length"], int):
            return None
        loop = _Loop(eqn)
        return loop if loop.early or loop.late or loop.sums else None
    if eqn.primitive is lax.dot_general_p:
        return _with_one_axis(eqn)
    is_jit = eqn.primitive is primitives.jit_p
    if is_jit and contains(eqn.params["jaxpr"], lax.scan_p) and not has_shardings(eqn):
        return with_wide_products(eqn.params["jaxpr"])
    return None


def _with_one_axis(eqn: Equation) -> Callable[..., list[jax.Array]] | None:
    """Return a function for a product that sums over the first axes of both, as if they were one axis.

    XLA transposes nothing then. Such are gradients of kernels that all steps of a layer were multiplied by.
    """
    contracted, batched = eqn.params["dimension_numbers"]
    axes = tuple(range(len(contracted[0])))
    if len(axes) < 2 or contracted != (axes, axes) or batched != ((), ()) or eqn.params["out_sharding"]:
        return None
    params = eqn.params | {"dimension_numbers": (((0,), (0,)), ((), ()))}

    def product(*operands: jax.Array) -> list[jax.Array]:
        flat = [array.reshape(-1, *array.shape[len(axes) :]) for array in operands]
        return [lax.dot_general_p.bind(*flat, **params)]

    return product


@dataclass(frozen=True)
class _Sum:
    """A carry to which every iteration adds a term, and which is used for nothing else.

    Attributes:
        carry: The variable, at the start of an iteration.
        addition: The equation that adds.
        layouts: Equations that turn `summed` into the term, in order; they can equally follow the sum.
        summed: The variable to sum over all iterations.
        product: The equation that computes it, if that is a product of two values that both vary.
    """

    carry: jex.Var
    addition: Equation
    layouts: tuple[Equation, ...]
    summed: jex.Var
    product: Equation | None

    @property
    def equations(self) -> list[Equation]:
        return [*([self.product] if self.product else []), *self.layouts, self.addition]

    @property
    def takes(self) -> list[jex.Var]:
        """The variables of every iteration that the sum is made of."""
        return variables_of(self.product.invars) if self.product else [self.summed]

    def after_loop(self, start: jax.Array, stacks: AtomValues) -> jax.Array:
        """Return the carry after the last iteration, from the stacked values of all iterations."""
        total, layouts = self._total(stacks)
        taken = layouts[0].invars if layouts else [v for v in self.addition.invars if v is not self.carry]
        result = self.addition.outvars
        arguments = variables_of([*taken, self.carry])
        (total,) = function_of([*layouts, self.addition], arguments, result)(total, start)
        return total

    def _total(self, stacks: AtomValues) -> tuple[jax.Array, tuple[Equation, ...]]:
        """Sum over all iterations; return the layouts that are still to be applied, too."""
        if self.product is None:
            return jnp.sum(stacks[self.summed], axis=0), self.layouts
        left, right = (stacks[v] for v in self.product.invars)
        contracted, batched = self.product.params["dimension_numbers"]
        layouts = self.layouts
        if layouts and layouts[0].params.get("permutation") == (1, 0):
            # The product of the transposed operands needs no transposition.
            left, right, contracted, layouts = right, left, contracted[::-1], layouts[1:]
        if contracted == ((0,), (0,)) and batched == ((), ()):
            # With one axis to sum over, XLA transposes nothing.
            left, right = (array.reshape(-1, *array.shape[2:]) for array in (left, right))
        else:
            contracted = tuple((0, *(axis + 1 for axis in axes)) for axes in contracted)
            batched = tuple(tuple(axis + 1 for axis in axes) for axes in batched)
        params = self.product.params | {"dimension_numbers": (contracted, batched)}
        return lax.dot_general_p.bind(left, right, **params), layouts


class _Loop:
    """A ``scan`` equation, parts of which are computed for all iterations at once.

    Attributes:
        early: Equations to compute before the loop.
        late: Equations to compute after it.
        sums: Carries to compute after it.
    """

    def __init__(self, eqn: Equation) -> None:
        self._params = eqn.params
        closed, (consts, carries) = eqn.params["jaxpr"], scan_counts(eqn.params)
        body = closed.jaxpr
        self._consts = dict(zip(body.constvars, closed.consts, strict=True))
        self._const_vars = body.invars[:consts]
        self._carries = body.invars[consts : consts + carries]
        self._sliced = body.invars[consts + carries :]
        self._next = dict(zip(self._carries, body.outvars[:carries], strict=True))
        self._stacked = body.outvars[carries:]
        self._allowance = _bytes(variables_of([*self._sliced, *self._stacked]))

        # What the loop itself still computes and stacks.
        self._eqns = needed_equations(body.eqns, body.outvars)[0]
        self._stacks = list(dict.fromkeys(variables_of(self._stacked)))
        self._uses = Counter(v for each in self._eqns for v in variables_of(each.invars))
        self._uses.update(variables_of(body.outvars))
        self._varying = dependents(self._eqns, [*self._carries, *self._sliced])[1]
        self.early: list[Equation] = []
        self._early_results: list[jex.Var] = []
        self.late: list[Equation] = []
        self._late_results: list[jex.Var] = []
        self.sums: list[_Sum] = []
        if not any(isinstance(atom, jex.Literal) for atom in self._stacked):
            self._plan_late()
            self._plan_early()

    def __call__(self, *operands: jax.Array) -> list[jax.Array]:
        split = len(self._const_vars), len(self._const_vars) + len(self._carries)
        consts = self._consts | dict(zip(self._const_vars, operands[: split[0]], strict=True))
        carries = dict(zip(self._carries, operands[split[0] : split[1]], strict=True))
        stacks = AtomValues(zip(self._sliced, operands[split[1] :], strict=True))
        self._for_all_iterations(self.early, self._early_results, consts, stacks)

        kept = self._kept_carries()
        sliced = [v for v in dict.fromkeys([*inputs_of(self._eqns), *self._stacks]) if v in stacks]
        results = [*(self._next[v] for v in kept), *self._stacks]
        iteration = function_of(self._eqns, [*kept, *sliced], results, consts)

        def body(carry: list[jax.Array], xs: list[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
            values = iteration(*carry, *xs)
            return values[: len(kept)], values[len(kept) :]

        options = {name: self._params[name] for name in ("length", "reverse", "unroll")}
        last, stacked = lax.scan(body, [carries[v] for v in kept], [stacks[v] for v in sliced], **options)
        carries |= zip(kept, last, strict=True)
        stacks |= zip(self._stacks, stacked, strict=True)
        self._for_all_iterations(self.late, self._late_results, consts, stacks)
        for each in self.sums:
            carries[each.carry] = each.after_loop(carries[each.carry], stacks)
        return [carries[v] for v in self._carries] + stacks.read(self._stacked)

    def _for_all_iterations(
        self,
        eqns: Sequence[Equation],
        results: Sequence[jex.Var],
        consts: Mapping[jex.Var, jax.Array],
        stacks: AtomValues,
    ) -> None:
        """Compute equations for all iterations at once, from stacked values, and add the results to them."""
        if results:
            taken = [v for v in inputs_of(eqns) if v in stacks]
            stacked = jax.vmap(function_of(eqns, taken, results, consts))(*[stacks[v] for v in taken])
            stacks.update(zip(results, stacked, strict=True))

    def _kept_carries(self) -> list[jex.Var]:
        """Return the carries that the loop keeps."""
        gone = {each.carry for each in self.sums}
        return [v for v in self._carries if v not in gone]

    def _plan_late(self) -> None:
        """Move equations behind the loop, unless it would have to stack too much for them."""
        sums = [each for each in map(self._sum, self._carries) if each]
        in_sums = [eqn for each in sums for eqn in each.equations]
        totals = set(outputs_of(each.addition for each in sums))
        core = needed_equations(self._eqns, [v for v in self._next.values() if v not in totals])[0]
        movable = _movable(without(self._eqns, [*core, *in_sums]))
        products = outputs_of(eqn for eqn in movable if eqn.primitive is lax.dot_general_p)
        made = dependents(movable, [v for v in products if v in self._varying])[1]
        late = [eqn for eqn in movable if made.intersection(eqn.outvars)]
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
        targets = [*(self._next[v] for v in self._kept_carries()), *self._stacks]
        self._eqns = needed_equations(self._eqns, targets)[0]

    def _fewer_stacks(self) -> list[jex.Var]:
        """Return the stacks from which simple arithmetic computes the others, for all iterations at once."""
        left = set(self._stacks)
        for v in [v for eqn in reversed(self._eqns) for v in eqn.outvars if v in left]:
            others = [*(left - {v}), *self._sliced]
            eqns, taken = needed_equations(self._eqns, [v], others)
            made_of = taken - {*self._const_vars, *self._consts}
            if made_of and made_of <= set(others) and all(eqn.primitive in _ARITHMETIC for eqn in eqns):
                left.discard(v)
        return [v for v in self._stacks if v in left]

    def _plan_early(self) -> None:
        """Move products before the loop, unless their results are too large."""
        targets = [*(self._next[v] for v in self._kept_carries()), *self._stacks]
        recurrent = dependents(self._eqns, self._carries)[1]
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

    def _sum(self, carry: jex.Var) -> _Sum | None:
        """Return the sum over all iterations that a carry computes, if it does nothing else."""
        makers: dict[Atom | None, Equation] = {v: eqn for eqn in self._eqns for v in eqn.outvars}
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
        if summed not in self._varying or not jnp.issubdtype(type_of(carry).dtype, jnp.inexact):
            return None
        layouts: list[Equation] = []
        while summed in makers and makers[summed].primitive in _LAYOUTS and self._uses[summed] == 1:
            layouts.insert(0, makers[summed])
            (summed,) = variables_of(makers[summed].invars)
        product = makers.get(summed)
        if product and not (
            product.primitive is lax.dot_general_p
            and self._uses[summed] == 1
            and self._varying.issuperset(product.invars)
        ):
            product = None
        return _Sum(carry, addition, tuple(layouts), summed, product)


def _movable(eqns: Sequence[Equation]) -> list[Equation]:
    """Return the equations that can follow the loop, since all equations that use their results can."""
    movable: list[Equation] = []
    fixed: set[jex.Var] = set()
    for eqn in reversed(eqns):
        if eqn.primitive in _AFTERWARDS and not fixed.intersection(eqn.outvars):
            movable.append(eqn)
        else:
            fixed.update(variables_of(eqn.invars))
    return movable[::-1]


def _bytes(variables: Iterable[Atom]) -> int:
    """Return the size of one iteration's values."""
    return sum(type_of(v).size * type_of(v).dtype.itemsize for v in variables)
