"""Let ``keras.random`` without a seed draw new numbers in every step, as on TensorFlow.

Keras on JAX refuses it, since what is drawn while a step is traced would be a constant of it. Here it draws
from the generator that ``tf.random`` has in steps, whose state the step changes.

So do seed generators that are made anew whenever a layer is called, as by ``Dropout(0.1)(x)`` in its
``call``, from which Keras on JAX would draw the same numbers in every step.

The layer that draws gets its generator when `fit` builds the model, which Keras does as for inference. Layers
of programs may draw in training alone, as for stochastic depth, so that it is built as for training, too.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from muster import TraceError, keras
from muster.extend import FunctionScope, current_scope, layer_being_called, only_shapes_are_asked
from muster_tensorflow.library.ops._arrays import is_traced
from muster_tensorflow.library.ops.random._generators import in_model_fn, let_draw, step_generator
from muster_tensorflow.patches import wrap

# The seed generators that are made while a model is built.
_MADE: ContextVar[list[Any] | None] = ContextVar("muster_seed_generators_made", default=None)


def _in_steps(original: Callable[[], Any]) -> Callable[[], Any]:
    """Wrap ``global_seed_generator``."""

    @functools.wraps(original)
    def generator() -> Any:
        if not is_traced():
            return original()
        try:
            return step_generator("normal", None) or original()
        except TraceError:
            return original()  # whose error names keras.random

    return generator


def _shared_in_steps(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``SeedGenerator.__init__``."""

    @functools.wraps(original)
    def init(self: Any, seed: Any = None, name: Any = None, **kwargs: Any) -> None:
        shared = None if kwargs else _of_step(seed)
        if shared is None:
            original(self, seed, name, **kwargs)
            if (made := _MADE.get()) is not None:
                made.append(self)
            return
        self.name, self.backend, self.state = name or shared.name, shared.backend, shared.state
        self._initial_seed = seed

    return init


def _of_step(seed: int | None) -> Any:
    """Return the generator of the step that is being traced, if that would make one anew at every call."""
    if layer_being_called() is None:
        return None
    if isinstance(scope := current_scope(), FunctionScope):
        return None if scope.may_create else step_generator("normal", seed)
    if only_shapes_are_asked() or in_model_fn() or not is_traced():
        return None
    with contextlib.suppress(TraceError):
        return step_generator("normal", seed)
    return None


def _also_in_training(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function of Keras' backend by which `fit` builds a model."""

    @functools.wraps(original)
    def compute_output_spec(function: Any, *args: Any, **kwargs: Any) -> Any:
        if not (isinstance(function, keras.Model) and kwargs == {"training": False}):
            return original(function, *args, **kwargs)
        with _noting_made() as made:
            spec = original(function, *args, **kwargs)
            if _has_own_layers(function):
                with contextlib.suppress(Exception):  # which training itself will raise
                    original(function, *args, training=True)
        kept = {id(each) for layer in function._flatten_layers() for each in layer._seed_generators}
        if any(id(each) not in kept for each in made):
            let_draw(function)
        return spec

    return compute_output_spec


@contextlib.contextmanager
def _noting_made() -> Iterator[list[Any]]:
    """Note in a ``with`` block which seed generators are made."""
    made: list[Any] = []
    token = _MADE.set(made)
    try:
        yield made
    finally:
        _MADE.reset(token)


def _has_own_layers(model: Any) -> bool:
    return any(not type(layer).__module__.startswith("keras.") for layer in model._flatten_layers())


def patch() -> None:
    """Let steps draw without a seed."""
    backend = keras.src.backend
    wrap(backend, "compute_output_spec", _also_in_training)
    module = keras.src.random.seed_generator
    wrap(module, "global_seed_generator", _in_steps)
    wrap(module.SeedGenerator, "__init__", _shared_in_steps)
