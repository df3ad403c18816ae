"""Trace conditionals and loops on traced values, and combine their branches in the step.

What a way assigns to variables is assigned once, after it, so that replicas reduce it once; random numbers
come from such variables, too. Each way is traced once.

Ways in which replicas exchange values are both computed, and the results are chosen of: replicas may go
different ways, and would wait for each other. So are those that ask for gradients of what is before them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from muster import keras
from muster.extend import Branch, assign_chosen, branch, current_scope
from muster_tensorflow.library.ops._arrays import as_array
from muster_tensorflow.library.ops._value_names import unnamed

Locals: TypeAlias = tuple[Any, ...]
Get: TypeAlias = Callable[[], Locals]
Put: TypeAlias = Callable[[Locals], None]

# What begins the names of primitives by which replicas exchange values, and of what is done once a program is
# complete, for which it has to be in one piece.
_IN_ONE_PIECE = ("psum", "pmax", "pmin", "all_gather", "all_to_all", "ppermute", "muster_")
_ANYWHERE = ("muster_assigned", "muster_unknown")


class Undefined:
    """Stands for a local that has no value yet."""

    def __repr__(self) -> str:
        return "a name without a value on some way through the code"


UNDEFINED = Undefined()


def truth(value: Any) -> Any:
    """Return the truth of a value: Python's, or an array of the step."""
    value = value.value if isinstance(value, keras.Variable) else value
    try:
        return bool(value)
    except jax.errors.TracerBoolConversionError:
        if value.size != 1:
            raise
        return jnp.reshape(value, ()) != 0


def taken(
    which: jax.Array,
    body: Callable[[], Any],
    orelse: Callable[[], Any],
    get: Get = tuple,
    put: Put = lambda values: None,
) -> Any:
    """Take one of two ways in the program, and return what it returns.

    Args:
        which: Whether the first, a value of the step.
        body: The first way.
        orelse: The other one.
        get: Returns the locals that the ways may change.
        put: Gives them values.

    Raises:
        TypeError: What they return or set is not alike.
    """
    before = get()
    ways = [_traced(way, before, get, put) for way in (body, orelse)]
    put(before)
    return _Choice(which, ways).taken(put)


def looped(test: Callable[[], Any], body: Callable[[], None], get: Get, put: Put) -> None:
    """Repeat a body in the program as long as a test is true; other arguments as for `taken`."""
    _Loop(test, body, get, put).run()


def scanned(
    step: Callable[[Any, Any], tuple[Any, Any]],
    first: Any,
    elements: Any,
    reverse: bool = False,
    length: int | None = None,
) -> tuple[Any, Any]:
    """Do as ``jax.lax.scan``; what the step assigns to variables, each call finds.

    Args:
        step: Takes what the call before it returned first, and an element.
        first: The former for the first call.
        elements: The elements along the first axis.
        reverse: Whether to begin with the last one.
        length: How many there are, where that is not known from them.
    """
    if length == 0:
        return first, elements
    once = _traced(
        lambda: step(first, jax.tree.map(lambda each: each[0], elements)), (), tuple, lambda _: None
    )
    scope = _scope()
    variables = [variable for variable, _ in once.branch.assigned.values()]

    def call(carried: tuple[Any, list[Any]], element: Any) -> tuple[tuple[Any, list[Any]], Any]:
        before, values = carried
        with aside() as way:
            scope.state_mapping.update(
                {id(each): value for each, value in zip(variables, values, strict=True)}
            )
            after, made = step(before, element)
        pairs = zip(variables, values, strict=True)
        return (after, [way.assigned.get(id(each), (each, value))[1] for each, value in pairs]), made

    values = [scope.get_current_value(each) for each in variables]
    with unnamed():
        (last, values), made = jax.lax.scan(call, (first, values), elements, length, reverse)
    for variable, value in zip(variables, values, strict=True):
        _assign(variable, value, [once.branch])
    return last, made


@dataclass(frozen=True)
class _Result:
    """Stands for a result of a program.

    Attributes:
        number: Which.
        shape: Its shape.
        dtype: Its dtype.
    """

    number: int
    shape: tuple[int, ...]
    dtype: Any


@dataclass
class _Way:
    """A way through the code that was traced.

    Attributes:
        values: What it returns, and the locals behind it.
        branch: What it assigns to variables.
        closed: Its program, which returns the arrays among these.
    """

    values: tuple[Any, Locals] = (None, ())
    branch: Branch = field(default_factory=Branch)
    closed: Any = None

    def filled(self, leaves: Sequence[Any]) -> list[Any]:
        """Return leaves, with the results of the program in their places."""
        results = jex.jaxpr_as_fun(self.closed)()
        return [results[leaf.number] if isinstance(leaf, _Result) else leaf for leaf in leaves]


class _KerasScope:
    """Does for a scope of Keras, in which it infers shapes and takes its own steps, as those of muster do."""

    def __init__(self) -> None:
        self._scope = keras.src.backend.common.stateless_scope.get_stateless_scope()
        self.state_mapping: dict[int, Any] = {} if self._scope is None else self._scope.state_mapping

    @contextmanager
    def branch(self) -> Iterator[Branch]:
        """Run code of which it is not known whether it will run, as `muster.extend.branch` does."""
        made, before = Branch(), dict(self.state_mapping)
        if self._scope is None:
            yield made
            return
        add = self._scope.add_update

        def noted(update: tuple[Any, Any]) -> None:
            add(update)
            made.assigned[id(update[0])] = update

        self._scope.add_update = noted
        try:
            yield made
        finally:
            self._scope.add_update = add
            self.state_mapping.clear()
            self.state_mapping.update(before)

    def get_current_value(self, variable: Any) -> Any:
        """Return the value of a variable."""
        return variable.value


def _scope() -> Any:
    """Return what gives variables their values now."""
    return current_scope() or _KerasScope()


@contextmanager
def aside() -> Iterator[Branch]:
    """Trace code in a ``with`` block that leaves the variables as they are; it yields what it assigns."""
    scope = _scope()
    with unnamed(), scope.branch() if isinstance(scope, _KerasScope) else branch(scope) as made:
        yield made


def _assign(variable: Any, value: Any, branches: Sequence[Branch]) -> None:
    """Assign what one of several ways through the code has made of a variable."""
    scope = current_scope()
    if scope is None:
        variable.assign(value)
    else:
        assign_chosen(scope, variable, value, branches)


def _traced(way: Callable[[], Any], before: Locals, get: Get, put: Put) -> _Way:
    """Trace a way from where the code is, and leave the variables as they are."""
    made = _Way()

    def run() -> list[Any]:
        results: list[Any] = []

        def kept(leaf: Any) -> Any:
            if not isinstance(leaf, jax.Array | np.ndarray) or not _is_number(leaf):
                return leaf
            results.append(leaf)
            return _Result(len(results) - 1, tuple(leaf.shape), leaf.dtype)

        put(before)
        with aside() as made.branch:
            returned, after = way(), get()
        made.values = (
            _map(kept, returned),
            tuple(new if new is old else _map(kept, new) for new, old in zip(after, before, strict=True)),
        )
        made.branch.assigned = {
            key: (variable, kept(value)) for key, (variable, value) in made.branch.assigned.items()
        }
        return results

    made.closed = jax.make_jaxpr(run)()
    return made


class _Choice:
    """Puts two ways together.

    Args:
        which: Whether the first is taken, a value of the step.
        ways: The ways.

    Raises:
        TypeError: What they return or set is not alike.
    """

    def __init__(self, which: jax.Array, ways: Sequence[_Way]) -> None:
        self._which, self._ways = which, ways
        self._variables = {key: pair[0] for way in ways for key, pair in way.branch.assigned.items()}
        first, second = (self._parts(way) for way in ways)
        for place, pair in enumerate(zip(first, second, strict=True)):
            if any(each is UNDEFINED for each in pair):  # of what has no value on one way there is none
                first[place] = second[place] = UNDEFINED
        (self._leaves, structure), (self._others, other) = _flat(first), _flat(second)
        if structure != other:
            raise TypeError(
                f"The two ways of an if on a tensor return or set unlike values: {structure} and {other}."
            )
        self._structure = structure
        self._dtypes = [_common(*pair) for pair in zip(self._leaves, self._others, strict=True)]

    def _parts(self, way: _Way) -> list[Any]:
        """Return what a way returns, the locals, and the values of all variables that one of them sets."""
        scope = _scope()
        assigned = way.branch.assigned
        of_variables = [
            assigned[key][1] if key in assigned else scope.get_current_value(variable)
            for key, variable in self._variables.items()
        ]
        return [way.values[0], *way.values[1], *of_variables]

    def taken(self, put: Put) -> Any:
        """Compute the way that is taken, set locals and variables, and return what it returns."""
        paths = [self._path(*pair) for pair in zip(self._ways, (self._leaves, self._others), strict=True)]
        with unnamed():
            if any(_is_in_one_piece(way.closed.jaxpr) for way in self._ways):
                pairs = zip(*(path() for path in paths), strict=True)
                arrays = [jnp.where(self._which, *pair) for pair in pairs]
            else:
                arrays = jax.lax.cond(self._which, *paths)
        rest = iter(arrays)
        pairs = zip(self._leaves, self._dtypes, strict=True)
        leaves = [leaf if dtype is None else next(rest) for leaf, dtype in pairs]
        returned, *values = jax.tree.unflatten(self._structure, leaves)
        count = len(values) - len(self._variables)
        put(tuple(values[:count]))
        for variable, value in zip(self._variables.values(), values[count:], strict=True):
            _assign(variable, value, [way.branch for way in self._ways])
        return returned

    def _path(self, way: _Way, leaves: Sequence[Any]) -> Callable[[], list[jax.Array]]:
        def path() -> list[jax.Array]:
            found = zip(way.filled(leaves), self._dtypes, strict=True)
            return [_array(leaf, dtype) for leaf, dtype in found if dtype is not None]

        return path


class _Loop:
    """A loop whose test is a value of the step; arguments as for `looped`."""

    def __init__(self, test: Callable[[], Any], body: Callable[[], None], get: Get, put: Put) -> None:
        self._test, self._body, self._get, self._put = test, body, get, put
        self._before = get()
        self._once = _traced(body, self._before, get, put)
        put(self._before)
        self._variables = {key: pair[0] for key, pair in self._once.branch.assigned.items()}
        scope = _scope()
        self._changed = [
            place
            for place, (new, old) in enumerate(zip(self._once.values[1], self._before, strict=True))
            if new is not old and old is not UNDEFINED
        ]
        first = [self._before[place] for place in self._changed]
        first += [scope.get_current_value(variable) for variable in self._variables.values()]
        then = [self._once.values[1][place] for place in self._changed]
        then += [pair[1] for pair in self._once.branch.assigned.values()]
        (self._first, self._structure), (made, other) = _flat(first), _flat(then)
        if self._structure != other:
            raise TypeError(
                f"A while on a tensor changes values to unlike ones: {self._structure} to {other}."
            )
        self._dtypes = [_common(*pair) for pair in zip(self._first, made, strict=True)]

    def run(self) -> None:
        """Compute it, and set locals and variables."""
        with unnamed():
            last = jax.lax.while_loop(self._goes_on, self._step, self._arrays(self._first))
        values = self._locals(last)
        count = len(self._changed)
        self._put_locals(values[:count])
        for variable, value in zip(self._variables.values(), values[count:], strict=True):
            _assign(variable, value, [self._once.branch])

    def _goes_on(self, arrays: list[jax.Array]) -> jax.Array:
        with aside():
            self._begin(arrays)
            return jnp.asarray(truth(self._test()))

    def _step(self, arrays: list[jax.Array]) -> list[jax.Array]:
        with aside() as way:
            variables = self._begin(arrays)
            self._body()
            after = self._get()
        parts = [after[place] for place in self._changed]
        parts += [way.assigned.get(key, (None, variables[key]))[1] for key in self._variables]
        return self._arrays(_flat(parts)[0])

    def _begin(self, arrays: list[jax.Array]) -> dict[int, Any]:
        """Set locals and variables to the values of a round, and return those of the variables."""
        values = self._locals(arrays)
        count = len(self._changed)
        self._put_locals(values[:count])
        found = dict(zip(self._variables, values[count:], strict=True))
        if found:
            scope = _scope()
            scope.state_mapping.update(found)
        return found

    def _put_locals(self, values: Sequence[Any]) -> None:
        """Set the locals that change; those that only the body has have no value before and after."""
        locals_ = list(self._before)
        for place, value in zip(self._changed, values, strict=True):
            locals_[place] = value
        self._put(tuple(locals_))

    def _locals(self, arrays: Sequence[jax.Array]) -> list[Any]:
        rest = iter(arrays)
        pairs = zip(self._first, self._dtypes, strict=True)
        leaves = [leaf if dtype is None else next(rest) for leaf, dtype in pairs]
        values: list[Any] = jax.tree.unflatten(self._structure, leaves)
        return values

    def _arrays(self, leaves: Sequence[Any]) -> list[jax.Array]:
        pairs = zip(leaves, self._dtypes, strict=True)
        return [_array(leaf, dtype) for leaf, dtype in pairs if dtype is not None]


def _common(first: Any, second: Any) -> Any:
    """Return the dtype in which two leaves are put together; None if they are one.

    Raises:
        TypeError: They are no arrays of one shape.
    """
    if first is second or _same(first, second):
        return None
    if not (_is_number(first) and _is_number(second)) or np.shape(first) != np.shape(second):
        raise TypeError(
            f"An if or a while on a tensor puts unlike values together: {first!r} and {second!r}."
        )
    plain = bool | int | float | complex
    return jnp.result_type(*(each if isinstance(each, plain) else each.dtype for each in (first, second)))


def _same(first: Any, second: Any) -> bool:
    arrays = _Result | jax.Array | np.ndarray | keras.Variable
    return type(first) is type(second) and not isinstance(first, arrays) and bool(first == second)


def _array(leaf: Any, dtype: Any) -> jax.Array:
    value = leaf.value if isinstance(leaf, keras.Variable) else leaf
    return jnp.asarray(as_array(value)).astype(dtype)


def _is_number(leaf: Any) -> bool:
    if isinstance(leaf, bool | int | float | complex | _Result | jax.Array | keras.Variable):
        return True
    return isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "biufcV"


def _flat(values: Any) -> tuple[list[Any], Any]:
    return jax.tree.flatten(values, is_leaf=lambda leaf: leaf is None)


def _map(function: Callable[[Any], Any], values: Any) -> Any:
    return jax.tree.map(function, values, is_leaf=lambda leaf: leaf is None)


def _is_in_one_piece(jaxpr: Any) -> bool:
    """Return whether replicas exchange values in a program, or gradients are asked for."""
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name.startswith(_IN_ONE_PIECE) and name not in _ANYWHERE:
            return True
        for value in eqn.params.values():
            bodies = value if isinstance(value, list | tuple) else [value]
            for each in bodies:
                body = each.jaxpr if isinstance(each, jex.ClosedJaxpr) else each
                if isinstance(body, jex.Jaxpr) and _is_in_one_piece(body):
                    return True
    return False
