"""Keras 2's spellings on Keras' optimizers: ``lr``, ``decay``, ``variables()``, ``weights``.

The names are ones that Keras 3 lacks or refuses; what it takes means what it meant.
"""

import functools
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np

from muster import gradients, keras
from muster.extend import count_updates, counter_of
from muster_tensorflow.library.ops.control._both_ways import assigned, both_ways
from muster_tensorflow.patches import change, wrap

# The optimizers whose ``apply_gradients`` is running.
_APPLYING: ContextVar[tuple[Any, ...]] = ContextVar("muster_applying", default=())


class Variables(list[Any]):
    """An optimizer's variables, which programs also get by a call: ``optimizer.variables()``."""

    def __call__(self) -> "Variables":
        return self


def _learning_rate(self: Any) -> Any:
    return self.learning_rate


def _decayed_lr(self: Any, var_dtype: Any) -> Any:
    """Return the rate of the next step."""
    rate = self.learning_rate
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        rate = rate(self.iterations)
    return keras.ops.cast(rate, keras.backend.standardize_dtype(var_dtype))


def _set_learning_rate(self: Any, value: Any) -> None:
    self.learning_rate = value


def _taking_old_arguments(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap an optimizer's ``__init__``, so that it takes ``lr``, tensors as rates, and follows ``decay``.

    ``jit_compile`` is unused: a step is compiled as a whole.

    Source: keras/optimizers/legacy/optimizer_v2.py, ``OptimizerV2``.
    """

    @functools.wraps(original)
    def init(self: Any, learning_rate: Any, *args: Any, **kwargs: Any) -> None:
        learning_rate = _rate(kwargs.pop("lr", learning_rate))
        kwargs.pop("jit_compile", None)
        decay = kwargs.pop("decay", None) or 0.0
        if decay < 0:
            raise ValueError(f"decay cannot be less than 0. Received: decay={decay}.")
        if decay:
            learning_rate = keras.optimizers.schedules.InverseTimeDecay(learning_rate, 1, decay)
        original(self, learning_rate, *args, **kwargs)

    return init


def _of_branches(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap the method that computes the rate: a schedule may have an ``if`` on the step's number."""

    @functools.wraps(original)
    def rate(self: Any) -> Any:
        before = assigned()
        try:
            return original(self)
        except jax.errors.TracerBoolConversionError as exc:
            return both_ways(original, (self,), {}, exc, before)

    return rate


def _rate(learning_rate: Any) -> Any:
    """Return a rate that Keras 3 takes, which refuses tensors, such as one that a step computes."""
    if isinstance(learning_rate, keras.Variable):
        return lambda: learning_rate.value
    if isinstance(learning_rate, jax.core.Tracer):
        return lambda: learning_rate
    if isinstance(learning_rate, jax.Array | np.ndarray | np.generic):
        return float(learning_rate)
    return learning_rate


def _called_too(original: property) -> property:
    def variables(self: Any) -> Variables:
        return Variables(original.__get__(self))

    return property(variables)


def _counted(original: property) -> property:
    """Wrap ``iterations``, which is the global step if the model_fn of an Estimator has set it to that."""

    def iterations(self: Any) -> Any:
        counter = counter_of(self)
        return original.__get__(self) if counter is None else counter

    return property(iterations)


def _setting_iterations(original: Callable[[Any, str, Any], None]) -> Callable[[Any, str, Any], None]:
    """Wrap ``__setattr__`` of optimizers, which would make the global step one of their own variables."""

    @functools.wraps(original)
    def set_attribute(self: Any, name: str, value: Any) -> None:
        if name == "iterations":
            count_updates(self, value)
        else:
            original(self, name, value)

    return set_attribute


def _variables(self: Any) -> Variables:
    return Variables(self.variables)


def _get_weights(self: Any) -> list[Any]:
    """Return the variables' values as NumPy arrays."""
    return [np.asarray(variable.value) for variable in self.variables]


def _set_weights(self: Any, weights: Iterable[Any]) -> None:
    """Set the variables.

    Raises:
        ValueError: There are more or fewer values than variables.
    """
    for variable, value in zip(self.variables, list(weights), strict=True):
        variable.assign(value)


def _get_gradients(self: Any, loss: Any, params: Iterable[Any]) -> list[Any]:
    """Return the gradients of a loss that a step has computed."""
    return list(gradients(loss, list(params)))


def _get_updates(self: Any, loss: Any, params: Iterable[Any]) -> list[Any]:
    """Minimize a loss that a step has computed.

    Source: keras/optimizers/legacy/optimizer_v2.py, ``OptimizerV2.get_updates``.
    """
    return [self.minimize(loss, list(params))]


def _naming(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``__init__`` of a schedule: ``name=None`` means the class' name, as it does in Keras 2."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.name = self.name or type(self).__name__

    return init


def _knowing_more(original: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Wrap the check that an optimizer is built for variables: it is built for further ones, too.

    Programs use one optimizer for several models, or for a variable that they create anew. The lists that
    ``build`` makes for the new variables go to the ends of those that it has made before.

    Source: keras/optimizers/legacy/optimizer_v2.py, ``OptimizerV2``, which creates slots when it needs them.
    """

    @functools.wraps(original)
    def check(self: Any, variables: Any) -> None:
        places = self._trainable_variables_indices
        unknown = [each for each in variables if self._var_key(each) not in places]
        if unknown:
            before = dict(vars(self))
            count = len(self._trainable_variables)
            object.__setattr__(self, "built", False)
            self.build(unknown)
            places.update({self._var_key(each): count + i for i, each in enumerate(unknown)})
            for name, value in before.items():
                made = vars(self)[name]
                if made is not value:
                    object.__setattr__(self, name, [*value, *made] if isinstance(value, list) else value)
        original(self, variables)

    return check


def _of_tensorflow_1(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``optimizers.get``: of an optimizer of ``tf.compat.v1.train`` it takes the one of Keras in it."""

    @functools.wraps(original)
    def get(identifier: Any) -> Any:
        optimizer = getattr(identifier, "keras_optimizer", None)
        if optimizer is None:
            return original(identifier)
        rate = optimizer._learning_rate
        if callable(rate) and not isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            # A number, as Keras keeps it: models are saved with it.
            made = keras.Variable(rate(), trainable=False, dtype="float32", name="learning_rate")
            optimizer._track_variable(made)
            optimizer._learning_rate = made
        return optimizer

    return get


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``apply_gradients``, so that `_by_own_method` sees that it has been called."""

    @functools.wraps(original)
    def apply_gradients(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = _APPLYING.set((*_APPLYING.get(), self))
        try:
            return original(self, *args, **kwargs)
        finally:
            _APPLYING.reset(token)

    return apply_gradients


def _by_own_method(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``apply``, which Keras 3 calls in ``fit``: ``apply_gradients`` of a program's class comes first.

    Source: keras/engine/training.py, ``Model.train_step``, which calls ``minimize``, and this calls it.
    """

    @functools.wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        is_of_keras = type(self).apply_gradients is keras.optimizers.Optimizer.apply_gradients
        if is_of_keras or any(each is self for each in _APPLYING.get()):
            return original(self, grads, trainable_variables)
        variables = self._trainable_variables if trainable_variables is None else trainable_variables
        return self.apply_gradients(list(zip(grads, variables, strict=True)))

    return apply


def _of_inner(self: Any, name: str) -> Any:
    """Look an attribute up in the optimizer whose loss is scaled, such as its ``beta_1``."""
    inner = vars(self).get("inner_optimizer")
    if inner is None or name.startswith("_"):
        raise AttributeError(f"{type(self).__name__} has no {name}.", name=name, obj=self)
    return getattr(inner, name)


def patch() -> None:
    """Give Keras' optimizers and schedules the names."""
    base = keras.optimizers.schedules.LearningRateSchedule
    for schedule in vars(keras.optimizers.schedules).values():
        if isinstance(schedule, type) and schedule is not base:
            wrap(schedule, "__init__", _naming)
    get = _of_tensorflow_1(keras.optimizers.get)
    for module in (keras.src.optimizers, keras.optimizers):
        change(module, "get", get)
    owner = keras.optimizers.Optimizer
    change(keras.optimizers.LossScaleOptimizer, "__getattr__", _of_inner)
    wrap(owner, "apply", _by_own_method)
    wrap(owner, "apply_gradients", _noting)
    wrap(owner, "_check_variables_are_known", _knowing_more)
    change(owner, "lr", property(_learning_rate, _set_learning_rate))
    change(owner, "_decayed_lr", _decayed_lr)
    wrap(owner, "_get_current_learning_rate", _of_branches)
    wrap(owner, "__init__", _taking_old_arguments)
    wrap(owner, "iterations", _counted)
    wrap(owner, "__setattr__", _setting_iterations)
    wrap(owner, "variables", _called_too)
    change(owner, "weights", property(_variables))
    change(owner, "get_gradients", _get_gradients)
    change(owner, "get_updates", _get_updates)
    change(owner, "get_weights", _get_weights)
    change(owner, "set_weights", _set_weights)
