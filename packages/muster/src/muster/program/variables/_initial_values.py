"""Compute initial values, with few programs that compile quickly; of large variables by rows.

Rows are those of the whole value: Keras' random initializers draw each element from its place in the array,
so that some rows need only the numbers of their places.
"""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex
from jax.extend.core import primitives

from muster._arrays import LazyArray, dtype_named
from muster._keras import keras
from muster._row_ids import HASHED_ROWS
from muster.program.passes._jaxprs import ELEMENTWISE, AtomValues, is_number, type_of
from muster.program.variables._keras_initializers import FILLED_WITH

# XLA compiles the drawing of random numbers in half a second with optimizations, in a tenth without. Drawing
# more numbers than this takes longer than that.
_FEW = 2**20
_QUICKLY = {"xla_backend_optimization_level": 0}
CONSTANTS = (keras.initializers.Zeros, keras.initializers.Ones, keras.initializers.Constant)
"""Initializers whose elements are all the same, if their value is a number."""


def initial_value(initializer: Any, shape: tuple[int, ...], dtype: str) -> jax.Array:
    """Compute a variable's initial value, in a new buffer, even while something is traced.

    Args:
        initializer: A callable (shape, dtype) -> array, or an array, which is returned unchanged.
        shape: The variable's shape, global.
        dtype: The name of its dtype.
    """
    if not callable(initializer):
        return initializer  # type: ignore[no-any-return]
    with jax.core.eval_context():
        few = math.prod(shape) <= _FEW
        if few and type(initializer) in FILLED_WITH:
            return donatable_copy(np.full(shape, FILLED_WITH[type(initializer)], dtype), dtype)
        if not few or not only_draws(initializer):
            return donatable_copy(initializer(shape, dtype=dtype), dtype)
        closed = jax.make_jaxpr(lambda: jnp.array(initializer(shape, dtype=dtype), dtype=dtype))()
        settings = {name: value for name, value in initializer.get_config().items() if name != "seed"}
        draw = _Draw(f"{type(initializer).__name__}{settings}", str(closed.jaxpr), closed.jaxpr)
        return _compiled(draw)(*closed.consts)[0]


def donatable_copy(value: Any, dtype: str) -> jax.Array:
    """Copy a value into a new buffer on the device, which a step may overwrite.

    Args:
        value: An array, not traced, or anything that NumPy makes one of.
        dtype: The name of the result's dtype.
    """
    with jax.ensure_compile_time_eval():
        if not isinstance(value, jax.Array):
            value = np.asarray(value, dtype)
        elif value.dtype != dtype or value.weak_type:
            return jnp.array(value, dtype)
        # jnp.array compiles a program for each shape.
        return jax.device_put(value, may_alias=False)  # type: ignore[no-any-return]


def array_of_pieces(
    shape: tuple[int, ...],
    dtype: Any,
    pieces: Iterable[Any],
    sharding: jax.sharding.Sharding | None = None,
) -> jax.Array:
    """Make an array on a device of its rows, in order; the host never has more than a piece of it.

    Args:
        shape: Its shape.
        dtype: Its dtype.
        pieces: Some rows each.
        sharding: The device; None for JAX's default device.
    """
    with jax.core.eval_context():
        made, start = jnp.zeros(shape, dtype, device=sharding), 0
        for piece in pieces:
            made = jax.block_until_ready(_with_rows(made, piece, start))
            start += len(piece)
        return made


@functools.partial(jax.jit, donate_argnums=0)
def _with_rows(array: jax.Array, rows: jax.Array, start: int) -> jax.Array:
    return jax.lax.dynamic_update_slice_in_dim(array, rows, start, 0)


@dataclasses.dataclass(frozen=True)
class _Draw:
    """A program that draws numbers from a seed; equal to one with another seed.

    Attributes:
        initializer: The initializer's name and settings.
        text: The jaxpr's text.
        jaxpr: The program; the seed is among its constants.
    """

    initializer: str
    text: str
    jaxpr: jex.Jaxpr = dataclasses.field(compare=False)


@functools.lru_cache(maxsize=128)
def _compiled(draw: _Draw) -> Callable[..., list[jax.Array]]:
    """Compile a function of a jaxpr's constants, so that all seeds share a program."""

    def draw_from(*constants: jax.Array) -> list[jax.Array]:
        return jex.jaxpr_as_fun(jex.ClosedJaxpr(draw.jaxpr, constants))()  # type: ignore[no-any-return]

    return jax.jit(draw_from, compiler_options=_QUICKLY)


def only_draws(initializer: Any) -> bool:
    """Return whether an initializer is Keras' own and has a number as its seed: others may have effects."""
    return type(initializer).__module__.startswith("keras.") and isinstance(
        getattr(initializer, "seed", None), int
    )


Array = np.ndarray[Any, Any]

# How many elements are drawn at once. Drawing takes some times their memory.
_DRAWN = 2**20
# Smaller values are made at once.
_LEAST_LATER_BYTES = 16 << 20
# Of larger ones memory for a second copy may be missing.
_IN_PIECES_BYTES = 256 << 20


@dataclass(frozen=True)
class ShardInfo:
    """The part of a variable that an initializer must compute.

    Source: tensorflow/python/trackable/base.py, ``ShardInfo``.

    Attributes:
        shape: The part's shape.
        offset: Where it begins in the variable, along each axis.
    """

    shape: tuple[int, ...]
    offset: tuple[int, ...]


def initial_rows(initial: Any, shape: tuple[int, ...], dtype: str) -> Callable[[int, int], Array]:
    """Return a function of a first row and an end that computes these rows of a variable's initial value.

    An initializer that takes an argument ``shard_info``, or both ``partition_shape`` and
    ``partition_offset``, is asked for the rows alone, and Keras' own compute no others, unless they couple
    them, as ``Orthogonal`` does. Others compute the whole value once.

    Args:
        initial: The whole value, or a callable (shape, dtype) -> array.
        shape: The variable's shape. A scalar has one row.
        dtype: The name of its dtype.
    """
    whole = functools.cache(lambda: np.asarray(initial_value(initial, shape, dtype)))
    by_rows = _by_rows(initial, shape, dtype) if callable(initial) and shape else None

    def rows(start: int, stop: int) -> Array:
        if not shape or by_rows is None or stop - start == shape[0]:
            return whole()[start:stop] if shape else whole()
        found = by_rows(start, stop)
        return found if len(found) == stop - start else found[start:stop]

    return rows


class InitialValue(LazyArray):
    """The initial value of a variable, which is made when it is needed: another may take its place before.

    Args:
        initializer: A callable (shape, dtype) -> array, or an array.
        shape: The variable's shape, global.
        dtype: The name of its dtype.
    """

    def __init__(self, initializer: Any, shape: tuple[int, ...], dtype: str) -> None:
        self.initializer = initializer
        self.shape = shape
        self.dtype = dtype_named(dtype)

    @property
    def may_wait(self) -> bool:
        """True if it is large, and the same whenever it is made; or of a hashed table, and is never made."""
        if self.shape[:1] == (HASHED_ROWS,):
            return True
        known = type(self.initializer) in CONSTANTS or only_draws(self.initializer)
        return known and self.nbytes >= _LEAST_LATER_BYTES

    def make(self) -> jax.Array:
        """Compute it, in a new buffer; a very large one some rows at a time, if the initializer can do so."""
        dtype = self.dtype.name
        by_rows = _by_rows(self.initializer, self.shape, dtype) if self.nbytes >= _IN_PIECES_BYTES else None
        if by_rows is None:
            return initial_value(self.initializer, self.shape, dtype)
        return array_of_pieces(self.shape, dtype, self.pieces())

    def pieces(self) -> Iterator[Array]:
        """Return all rows in order, some at a time, in new arrays."""
        rows = initial_rows(self.initializer, self.shape, self.dtype.name)
        many = max(1, 8 * _DRAWN // math.prod(self.shape[1:]))
        return (rows(start, min(start + many, self.shape[0])) for start in range(0, self.shape[0], many))

    @functools.cached_property
    def function(self) -> bytes | None:
        """The function that makes rows in another process; None if that needs the whole value.

        It is a serialized ``jax.export.Exported``. It takes the numbers of elements, in the order of rows, in
        two parts of 32 bits: uint32 of shape (n, ...), for some number n of rows; and returns these elements.
        """
        elements = None
        if self.shape and callable(self.initializer):
            elements = _elements(self.initializer, self.shape, self.dtype.name)
        if elements is None:
            return None
        many = max(1, _DRAWN // max(1, math.prod(self.shape[1:])))
        like = jax.ShapeDtypeStruct((min(many, self.shape[0]), *self.shape[1:]), "uint32")
        jitted = jax.jit(elements, keep_unused=True)
        return bytes(jax.export.export(jitted, platforms=("cpu",))(like, like).serialize())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.make(), dtype)


def _by_rows(initializer: Any, shape: tuple[int, ...], dtype: str) -> Callable[[int, int], Array] | None:
    """Return what computes rows of an initializer's value; None if it cannot but compute all."""
    takes = inspect.signature(initializer).parameters

    def asked(start: int, stop: int) -> Array:
        part = ShardInfo((stop - start, *shape[1:]), (start, *[0] * (len(shape) - 1)))
        named: dict[str, Any] = {"partition_shape": part.shape, "partition_offset": part.offset}
        if "shard_info" in takes:
            named = {"shard_info": part}
        with jax.core.eval_context():
            return np.asarray(initializer(shape, dtype=dtype, **named), dtype)

    if "shard_info" in takes or {"partition_shape", "partition_offset"} <= takes.keys():
        return asked
    elements = _elements(initializer, shape, dtype)
    return None if elements is None else functools.partial(_made, jax.jit(elements), shape[1:], dtype)


def _elements(
    initializer: Any, shape: tuple[int, ...], dtype: str
) -> Callable[[jax.Array, jax.Array], jax.Array] | None:
    """Return what makes elements of one of Keras' own initializers' value, by their numbers as of
    `InitialValue.function`; None if they need all of it."""
    if type(initializer) in CONSTANTS and np.ndim(getattr(initializer, "value", 0)) == 0:
        with jax.core.eval_context():
            number = np.asarray(initializer((1,), dtype=dtype))[0]
        return lambda high, low: jnp.full(high.shape, number)
    if only_draws(initializer) and jax.config.jax_threefry_partitionable:  # type: ignore[attr-defined]
        with jax.core.eval_context():
            closed = jax.make_jaxpr(lambda: jnp.array(initializer(shape, dtype=dtype), dtype=dtype))()
        if _draws_elements(closed.jaxpr, shape):
            return lambda high, low: _computed(closed, high, low)[0]
    return None


def _made(
    elements: Callable[..., jax.Array], row: tuple[int, ...], dtype: str, start: int, stop: int
) -> Array:
    """Return rows, made some at a time."""
    result = np.empty((stop - start, *row), dtype_named(dtype))
    size = math.prod(row)
    many = max(1, _DRAWN // max(1, size))
    for first in range(start, stop, many):
        last = min(first + many, stop)
        places = np.arange(first * size, last * size, dtype=np.uint64).reshape(-1, *row)
        high, low = (places >> np.uint64(32)).astype(np.uint32), places.astype(np.uint32)
        with jax.core.eval_context():
            result[first - start : last - start] = elements(high, low)
    return result


def _draws_elements(jaxpr: jex.Jaxpr, shape: tuple[int, ...], rows: Iterable[jex.Var] = ()) -> bool:
    """Return whether a jaxpr draws an array of a shape, and computes its elements one by one."""
    made = set(rows)
    for eqn in jaxpr.eqns:
        taken = [v for v in eqn.invars if not isinstance(v, jex.Literal) and v in made]
        if eqn.primitive is primitives.jit_p:
            inner = eqn.params["jaxpr"].jaxpr
            known = [v for v, outer in zip(inner.invars, eqn.invars, strict=True) if outer in taken]
            if not _draws_elements(inner, shape, known):
                return False
        elif eqn.primitive is primitives.random_bits_p:
            key = str(type_of(eqn.invars[0]).dtype)
            if (eqn.params["shape"], eqn.params["bit_width"], key) != (shape, 32, "key<fry>"):
                return False
        elif taken:
            if eqn.primitive not in ELEMENTWISE or not all(v in taken or is_number(v) for v in eqn.invars):
                return False
        elif not all(map(is_number, eqn.outvars)):
            return False
        made.update(v for v in eqn.outvars if type_of(v).shape == shape)
    return all(is_number(v) or v in made for v in jaxpr.outvars)


def _computed(
    closed: jex.ClosedJaxpr, high: jax.Array, low: jax.Array, args: Sequence[jax.Array] = ()
) -> list[jax.Array]:
    """Compute a jaxpr for the elements at some places, numbered in two parts of 32 bits."""
    values = AtomValues.of(closed, args)
    for eqn in closed.jaxpr.eqns:
        operands = values.read(eqn.invars)
        if eqn.primitive is primitives.jit_p:
            made = _computed(eqn.params["jaxpr"], high, low, operands)
        elif eqn.primitive is primitives.random_bits_p:
            first, second = jax.random.key_data(operands[0])
            drawn = primitives.threefry2x32_p.bind(first, second, high, low)
            made = [drawn[0] ^ drawn[1]]
        else:
            bound = eqn.primitive.bind(*operands, **eqn.params)
            made = bound if eqn.primitive.multiple_results else [bound]
        values.update(zip(eqn.outvars, made, strict=True))
    return values.read(closed.jaxpr.outvars)
