"""Run a program's own optimizers that implement Keras 2's methods, such as ``_resource_apply_dense``.

They derive from ``tf.keras.optimizers.Optimizer``, ``legacy.Optimizer``, or an optimizer such as ``Adam``:

- since 2.11 ``update_step(gradient, variable)``, which Keras 3 also gives the learning rate, with
  ``_build_learning_rate`` and ``_index_dict``;
- before, ``_resource_apply_dense`` with hyperparameters, slots and a state that is prepared for each device.

Source: keras/src/optimizers/optimizer.py and legacy/optimizer_v2.py of Keras 2.15.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from muster import keras
from muster.program import GradientTape
from muster_tensorflow.patches import change, wrap

_RATE = "learning_rate"


def _begun(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``__init__`` of the base class: its first argument was the name, and the rate is set later."""

    @functools.wraps(original)
    def init(self: Any, learning_rate: Any = 0.0, *args: Any, **kwargs: Any) -> None:
        if isinstance(learning_rate, str):
            kwargs["name"], learning_rate = learning_rate, kwargs.pop("lr", 0.0)
            object.__setattr__(self, "_initial_decay", kwargs.pop("decay", 0.0))
        original(self, learning_rate, *args, **kwargs)

    return init


def _derived(cls: Any, /, **kwargs: Any) -> None:
    """Let an optimizer's class update variables by the methods that it has."""
    super(keras.optimizers.Optimizer, cls).__init_subclass__(**kwargs)
    own = vars(cls)
    if "_resource_apply_dense" in own:
        cls.update_step = _by_resource
    elif "update_step" in own and len(inspect.signature(own["update_step"]).parameters) == 3:
        cls.update_step = _without_rate(own["update_step"])


def _without_rate(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def update_step(self: Any, gradient: Any, variable: Any, learning_rate: Any = None) -> None:
        original(self, gradient, variable)

    return update_step


def _by_resource(self: Any, gradient: Any, variable: Any, learning_rate: Any) -> None:
    """Update a variable by ``_resource_apply_dense``, which may want what ``_prepare_local`` prepares."""
    given = {}
    if "apply_state" in inspect.signature(self._resource_apply_dense).parameters:
        key = (variable.device, variable.dtype.base_dtype)
        given["apply_state"] = {key: self._fallback_apply_state(*key)}
    self._resource_apply_dense(gradient, variable, **given)


def _resource_apply_dense(self: Any, grad: Any, var: Any, apply_state: Any = None) -> None:
    """Update a variable as the class does from which the program's is derived."""
    steps = (vars(cls).get("update_step") for cls in type(self).__mro__)
    step = next(each for each in steps if each is not None and each is not _by_resource)
    step(self, grad, var, _get_hyper(self, _RATE, var.dtype))


def _prepare_local(self: Any, var_device: Any, var_dtype: Any, apply_state: Any) -> None:
    """Put the learning rate of this step into the state of a device and a dtype."""
    rate = self._decayed_lr(var_dtype)
    apply_state.setdefault((var_device, var_dtype), {}).update(lr_t=rate, lr=rate)


def _fallback_apply_state(self: Any, var_device: Any, var_dtype: Any) -> Any:
    """Return the state of a device and a dtype."""
    state: dict[Any, Any] = {(var_device, var_dtype): {}}
    self._prepare_local(var_device, var_dtype, state)
    return state[var_device, var_dtype]


def _hypers(self: Any) -> dict[str, Any]:
    hypers: dict[str, Any] = vars(self).setdefault("_hyperparameters", {})
    return hypers


def _set_hyper(self: Any, name: str, value: Any) -> None:
    """Set a hyperparameter, which is an attribute, too."""
    if name == _RATE:
        self._build_learning_rate(value)
        return
    _hypers(self)[name] = value
    if not hasattr(type(self), name):
        object.__setattr__(self, name, value)


def _get_hyper(self: Any, name: str, dtype: Any = None) -> Any:
    """Return a hyperparameter; the value in this step of one that is a schedule or a function."""
    value = self.learning_rate if name == _RATE else _hypers(self)[name]
    if isinstance(value, keras.optimizers.schedules.LearningRateSchedule):
        value = value(self.iterations)
    value = value() if callable(value) else value
    return value if dtype is None else keras.ops.cast(value, keras.backend.standardize_dtype(dtype))


def _serialize_hyperparameter(self: Any, name: Any) -> Any:
    """Return a hyperparameter, or the one of a name, as configs have it."""
    value = name
    if isinstance(name, str):
        value = self._learning_rate if name == _RATE else _hypers(self)[name]
    if isinstance(value, keras.optimizers.schedules.LearningRateSchedule):
        return keras.optimizers.schedules.serialize(value)
    return float(keras.ops.convert_to_numpy(value() if callable(value) else value))


def _build_learning_rate(self: Any, learning_rate: Any) -> Any:
    """Set the rate, a number or a schedule, and return what optimizers keep of it."""
    if self._initial_decay and not callable(learning_rate):
        learning_rate = keras.optimizers.schedules.InverseTimeDecay(learning_rate, 1, self._initial_decay)
    if isinstance(learning_rate, keras.optimizers.schedules.LearningRateSchedule) or callable(learning_rate):
        self._learning_rate = learning_rate
    else:
        self._learning_rate.assign(learning_rate)
    return self._learning_rate


def _add_slot(self: Any, var: Any, slot_name: str, initializer: Any = "zeros", shape: Any = None) -> Any:
    """Make a variable beside another one, unless it is there, and return it."""
    slots = vars(self).setdefault("_slots_of_program", {})
    key = (self._var_key(var), slot_name)
    if key not in slots:
        slots[key] = self.add_variable_from_reference(var, slot_name, initializer, shape=shape)
    return slots[key]


def _get_slot(self: Any, var: Any, slot_name: str) -> Any:
    """Return the variable that `add_slot` has made."""
    return vars(self)["_slots_of_program"][self._var_key(var), slot_name]


def _get_slot_names(self: Any) -> list[str]:
    """Return the names of the variables beside others."""
    return list(dict.fromkeys(name for _, name in vars(self).get("_slots_of_program", {})))


def _create_slots(self: Any, var_list: Any) -> None:
    """Make no slots: what a class that programs derive has is made when it is built."""


def _making_slots(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``build`` of the base class."""

    @functools.wraps(original)
    def build(self: Any, var_list: Any) -> None:
        original(self, var_list)
        self._create_slots(var_list)

    return build


def _by_old_names(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``add_variable_from_reference``."""

    @functools.wraps(original)
    def add_variable(
        self: Any,
        reference_variable: Any = None,
        name: str | None = None,
        initializer: Any = "zeros",
        *,
        model_variable: Any = None,
        variable_name: str | None = None,
        shape: Any = None,
        initial_value: Any = None,
    ) -> Any:
        of = reference_variable if model_variable is None else model_variable
        if initial_value is not None:

            def initializer(shape: Any, dtype: Any = None) -> Any:
                return keras.ops.broadcast_to(keras.ops.cast(initial_value, dtype), shape)

        own = variable_name or name
        if shape is None:
            return original(self, of, own, initializer)
        return self.add_variable(
            tuple(shape), initializer, of.dtype, name=f"{of.path.replace('/', '_')}_{own}"
        )

    return add_variable


def _compute_gradients(self: Any, loss: Any, var_list: Any, tape: GradientTape | None = None) -> Any:
    """Return pairs of gradients and variables, of a function that computes the loss, or of it and a tape."""
    if callable(loss):
        with GradientTape() as tape:
            loss = loss()
    if tape is None:
        raise ValueError("compute_gradients needs the tape in whose block the loss was computed.")
    variables = var_list() if callable(var_list) else var_list
    return list(zip(tape.gradient(loss, variables), variables, strict=True))


def patch() -> None:
    """Let programs derive such optimizers."""
    owner = keras.optimizers.Optimizer
    wrap(owner, "__init__", _begun)
    change(owner, "__init_subclass__", classmethod(_derived))
    wrap(owner, "build", _making_slots)
    wrap(owner, "add_variable_from_reference", _by_old_names)
    change(owner, "_use_locking", False)
    change(owner, "_initial_decay", 0.0)
    change(owner, "_index_dict", property(lambda self: self._trainable_variables_indices))
    change(owner, "compute_gradients", _compute_gradients)
    methods: list[Callable[..., Any]] = [
        _build_learning_rate,
        _create_slots,
        _fallback_apply_state,
        _get_hyper,
        _prepare_local,
        _resource_apply_dense,
        _serialize_hyperparameter,
        _set_hyper,
    ]
    for method in methods:
        change(owner, method.__name__, method)
    change(owner, "add_slot", _add_slot)
    change(owner, "get_slot", _get_slot)
    change(owner, "get_slot_names", _get_slot_names)
