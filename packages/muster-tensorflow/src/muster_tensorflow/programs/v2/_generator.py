"""``tf.random.Generator``: a generator of random numbers whose state is a variable."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster import keras
from muster.distribute import Strategy, get_strategy
from muster.extend import FunctionScope, current_scope
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array, as_shape
from muster_tensorflow.library.ops.random import _stateless

_GLOBAL: dict[Strategy, "Generator"] = {}


class Generator:
    """Draws random numbers, in compiled functions too; each replica draws its own.

    The numbers are those of JAX's generator, not TensorFlow's.

    Args:
        copy_from: A generator whose state to start from.
        state: Two integers to start from.
        alg: Unused.

    Source: tensorflow/python/ops/random_ops/stateful_random_ops.py, ``Generator``.
    """

    def __init__(
        self, copy_from: "Generator | None" = None, state: ArrayLike | None = None, alg: object = None
    ) -> None:
        self._generator = _new_state()
        if copy_from is not None:
            state = copy_from.state.value
        if state is None:
            raise ValueError("A generator needs copy_from or state. Use tf.random.Generator.from_seed(seed).")
        self.reset(state)

    @classmethod
    def from_seed(cls, seed: int, alg: object = None) -> "Generator":
        """Make a generator of a seed."""
        return cls(state=_state_of(seed))

    @classmethod
    def from_non_deterministic_state(cls, alg: object = None) -> "Generator":
        """Make a generator that draws other numbers in each run of a program.

        Workers that train in step get the same one, by NumPy's random numbers, which are the chief's on all.
        """
        if get_strategy().workers.size > 1:
            return cls(state=np.random.randint(0, 2**32, 2, np.uint32))
        return cls(state=np.random.SeedSequence().generate_state(2))

    @classmethod
    def from_state(cls, state: ArrayLike, alg: object = None) -> "Generator":
        """Make a generator with the state that another one had."""
        return cls(state=state)

    @classmethod
    def from_key_counter(cls, key: ArrayLike, counter: ArrayLike, alg: object = None) -> "Generator":
        """Make a generator of an integer, the key, and how many numbers to pass over."""
        return cls(state=[int(as_array(key)), int(np.ravel(as_array(counter))[0])])

    @property
    def state(self) -> Any:
        """The variable that holds the state."""
        return self._generator.state

    @property
    def variables(self) -> list[Any]:
        """The variable that holds the state, for a Checkpoint."""
        return [self.state]

    @property
    def algorithm(self) -> int:
        """The number of the algorithm: that of ThreeFry, which JAX has."""
        return 2

    def reset(self, state: ArrayLike) -> None:
        """Set the state."""
        words = as_array(state)
        self.state.assign(jnp.asarray(words).astype(jnp.uint32).reshape(2))

    def reset_from_seed(self, seed: int) -> None:
        """Set the state to that of a new generator with a seed."""
        self.reset(_state_of(seed))

    def skip(self, delta: int) -> None:
        """Pass over the numbers of ``delta`` calls."""
        self.state.assign(self.state.value + jnp.asarray([0, delta], jnp.uint32))

    def normal(
        self,
        shape: Any,
        mean: ArrayLike = 0.0,
        stddev: ArrayLike = 1.0,
        dtype: DTypeLike = np.float32,
        name: str | None = None,
    ) -> Array:
        """Draw numbers from a normal distribution."""
        return _stateless.stateless_normal(shape, self._seed(), mean, stddev, dtype)

    def truncated_normal(
        self,
        shape: Any,
        mean: ArrayLike = 0.0,
        stddev: ArrayLike = 1.0,
        dtype: DTypeLike = np.float32,
        name: str | None = None,
    ) -> Array:
        """Draw numbers from a normal distribution within two standard deviations."""
        return _stateless.stateless_truncated_normal(shape, self._seed(), mean, stddev, dtype)

    def uniform(
        self,
        shape: Any,
        minval: ArrayLike = 0,
        maxval: ArrayLike | None = None,
        dtype: DTypeLike = np.float32,
        name: str | None = None,
    ) -> Array:
        """Draw numbers uniformly from ``minval`` up to, but without, ``maxval``; None is 1."""
        return _stateless.stateless_uniform(shape, self._seed(), minval, maxval, dtype)

    def uniform_full_int(self, shape: Any, dtype: DTypeLike = np.uint64, name: str | None = None) -> Array:
        """Draw integers of all that the dtype holds; 64 bits are 32 here."""
        kind = np.dtype(jax.dtypes.canonicalize_dtype(dtype))
        bits = jax.random.bits(
            _stateless.key_of(self._seed()), as_shape(shape), np.dtype(f"uint{8 * kind.itemsize}")
        )
        return jax.lax.bitcast_convert_type(bits, kind)

    def make_seeds(self, count: int = 1) -> Array:
        """Make seeds for the stateless functions, of shape (2, count)."""
        return _stateless.stateless_split(self._seed(), count).T

    def split(self, count: int = 1) -> list["Generator"]:
        """Make generators, and change the own state."""
        return [Generator(state=seed) for seed in self.make_seeds(count).T]

    def _seed(self) -> jax.Array:
        return self._generator.next()  # type: ignore[no-any-return]


class _PassingState:
    """The state of a generator that exists in one call of a function, and has no variable.

    Attributes:
        state: The state: what a variable would be.
        value: Its value.
    """

    def __init__(self) -> None:
        self.state = self
        self.value = jnp.zeros(2, jnp.uint32)

    def assign(self, value: jax.Array) -> None:
        """Set the value."""
        self.value = value

    def next(self) -> jax.Array:
        """Return the value, and go on to the next one."""
        value = self.value
        self.value = value + jnp.asarray([0, 1], jnp.uint32)
        return value


def _new_state() -> Any:
    """Return a new state: in the code of replicas, and of calls that create no variables, a passing one."""
    scope = current_scope()
    if scope is not None and scope.replicas is not None:
        return _PassingState()
    if isinstance(scope, FunctionScope) and not scope.may_create:
        return _PassingState()
    return keras.random.SeedGenerator(0)


def _state_of(seed: int) -> np.ndarray[Any, Any]:
    return np.array([seed & 0xFFFFFFFF, 0], np.uint32)  # draws count in the second one


def get_global_generator() -> Generator:
    """Return the generator that all code with the current strategy shares."""
    strategy = get_strategy()
    if strategy not in _GLOBAL:
        with strategy.scope():
            _GLOBAL[strategy] = Generator.from_non_deterministic_state()
    return _GLOBAL[strategy]


def set_global_generator(generator: Generator) -> None:
    """Let `get_global_generator` return a generator from now on."""
    _GLOBAL[get_strategy()] = generator
