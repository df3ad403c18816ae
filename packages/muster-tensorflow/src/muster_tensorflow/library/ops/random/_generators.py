"""Draw random numbers: by NumPy outside of compiled steps, and in them from a state that steps change."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np

from muster import TraceError, keras
from muster.distribute import Strategy, get_strategy, has_strategy
from muster.extend import (
    FunctionScope,
    current_scope,
    is_bound,
    is_built_by_call,
    layer_being_called,
    only_shapes_are_asked,
    own_generator,
)
from muster_tensorflow.library.ops._arrays import is_traced
from muster_tensorflow.library.ops.random._fixed_seeds import fixed_seed

# The generators of each strategy's functions, by their seed: made once, outside of all functions.
_OF_FUNCTIONS: "WeakKeyDictionary[Strategy, dict[int | None, keras.random.SeedGenerator]]" = (
    WeakKeyDictionary()
)
# The generators of layers; one in a model serves all of it.
_OF_LAYERS: "WeakKeyDictionary[Any, keras.random.SeedGenerator]" = WeakKeyDictionary()
_OF_NUMPY: dict[int, np.random.RandomState] = {}
_DRAWS: ContextVar[list[str] | None] = ContextVar("muster_draws", default=None)


def set_seed(seed: int) -> None:
    """Make all random numbers that follow repeatable: of NumPy, Python, Keras and ``tf.random``."""
    _OF_NUMPY.clear()
    keras.utils.set_random_seed(seed)


@contextlib.contextmanager
def noting_draws() -> Iterator[list[str]]:
    """Note in a ``with`` block what draws random numbers: it yields a list that is longer after each draw."""
    made: list[str] = []
    token = _DRAWS.set(made)
    try:
        yield made
    finally:
        _DRAWS.reset(token)


def note_draw(what: str) -> None:
    """Note that something draws random numbers."""
    if (noted := _DRAWS.get()) is not None:
        noted.append(what)


def numpy_generator(seed: int | None) -> Any:
    """Return NumPy's functions for random numbers, outside of steps: the process' own, or those of a seed."""
    note_draw("numpy")
    if (fixed := fixed_seed()) is not None:
        return np.random.RandomState(fixed)
    return np.random if seed is None else _OF_NUMPY.setdefault(int(seed), np.random.RandomState(int(seed)))


def in_model_fn() -> bool:
    """Return whether code runs as an Estimator's step, which makes its variables anew at every call."""
    scope = current_scope()
    return scope is not None and not isinstance(scope, FunctionScope)


def step_generator(function: str, seed: float | None) -> keras.random.SeedGenerator | None:
    """Return the generator whose state the step that is being traced changes; None outside of steps.

    In a ``tf.function`` it belongs to the strategy, in a layer to the model that is called, and a model_fn
    makes one for each call.

    Args:
        function: The name of the function that draws, for errors.
        seed: The seed of its first state, of which TensorFlow takes the whole part; None for a new one.

    Raises:
        TraceError: Nothing would keep the state.
    """
    note_draw(function)
    scope, layer = current_scope(), layer_being_called()
    seed = None if seed is None else int(seed)
    if isinstance(scope, FunctionScope):
        generators = _OF_FUNCTIONS.setdefault(get_strategy(), {})
        if seed not in generators:
            generators[seed] = _made_outside(seed)
        return generators[seed]
    if in_model_fn():
        return keras.random.SeedGenerator(0 if only_shapes_are_asked() else seed)
    if only_shapes_are_asked():
        return _made_outside(0) if layer is None else _generator_in(layer, seed)
    for generator in _OF_LAYERS.values():
        if is_bound(generator.state):  # one of the variables of the step that Keras traces
            return generator
    if is_traced():
        raise TraceError(
            f"tf.random.{function} would draw the same numbers in every step of a compiled program. Use "
            "keras.random with a keras.random.SeedGenerator that a layer holds, whose state is saved."
        )
    return _generator_in(layer, seed) if is_built_by_call(layer) else None


def _generator_in(layer: Any, seed: int | None) -> keras.random.SeedGenerator:
    """Return the generator of a layer or of one in it; without any, let the layer have one."""
    found = [each for each in (layer, *_layers_in(layer)) if each in _OF_LAYERS]
    if found:
        return _OF_LAYERS[found[0]]
    _OF_LAYERS[layer] = _made_outside(seed)
    own_generator(layer, _OF_LAYERS[layer])
    return _OF_LAYERS[layer]


def let_draw(model: Any) -> None:
    """Let a model have a generator, if neither it nor a layer of it has one, for what its steps draw."""
    _generator_in(model, None)


def _layers_in(layer: Any) -> list[Any]:
    below = getattr(layer, "layers", None) or getattr(layer, "_layers", [])
    return [each for one in below for each in (one, *_layers_in(one))]


def _made_outside(seed: int | None) -> keras.random.SeedGenerator:
    """Make a generator where nothing is being traced: in another thread."""
    strategy = get_strategy() if has_strategy() else None

    def make() -> keras.random.SeedGenerator:
        with contextlib.nullcontext() if strategy is None else strategy.scope():
            return keras.random.SeedGenerator(seed)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


def next_key(generator: keras.random.SeedGenerator) -> jax.Array:
    """Return a key for `jax.random`, another one at each call."""
    if (fixed := fixed_seed()) is not None:
        return jnp.array(fixed, jnp.uint32)
    return generator.next()  # type: ignore[no-any-return]
