"""A compiled Keras model as data: its configs and initial values, to build it again."""

import copy
import dataclasses
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import numpy as np

from muster._keras import keras
from muster.estimator._estimator_spec import ModeKeys
from muster.program import replica_weight
from muster.program.variables import active_scope
from muster.program.variables.keras_internals import compile_arguments, value_of

Values: TypeAlias = tuple[tuple[str, np.ndarray[Any, Any]], ...]
"""The path and a copy of the value of each variable."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelRecipe:
    """Builds copies of a model, which stays unchanged.

    Attributes:
        config: Its layers, as Keras serializes them, without how models in it were compiled.
        custom_objects: The user's classes and functions by name.
        optimizer: Returns a new optimizer like the model's.
        compiled: The other arguments of ``Model.compile``.
        weights: The weights.
        seeds: The states of seed generators, as dropout has them.
        optimizer_values: The optimizer's variables; none if it has not trained yet.
    """

    config: dict[str, Any]
    custom_objects: Mapping[str, Any]
    optimizer: Callable[[], Any]
    compiled: Mapping[str, Any]
    weights: Values
    seeds: Values
    optimizer_values: Values

    @classmethod
    def of(cls, model: Any, custom_objects: Mapping[str, Any]) -> "ModelRecipe":
        """Describe a compiled model as it is now.

        Raises:
            ValueError: The model's class does not say how to build it.
        """
        name = type(model).__name__
        try:
            config = model.get_config()
        except NotImplementedError as exc:
            raise ValueError(
                f"The Keras model {model.name!r} cannot be built anew: let its class {name} implement "
                "`get_config`, which returns the arguments of its `__init__`."
            ) from exc
        optimizer = model.optimizer
        return cls(
            config=_uncompiled({"class_name": name, "registered_name": name, "config": config}),
            custom_objects={each.__name__: each for each in _classes(model)} | dict(custom_objects),
            optimizer=partial(_from_config, type(optimizer), _optimizer_config(optimizer)),
            compiled=compile_arguments(model),
            weights=_values(model.weights),
            seeds=_values(_seeds(model)),
            optimizer_values=_values(optimizer.variables) if optimizer.built else (),
        )

    def build(self, mode: ModeKeys) -> Any:
        """Return a new model, in a step that is being traced: compiled, unless it is to predict.

        Raises:
            ValueError: The model's class or those of its layers do not say how to build it.
        """
        custom_objects = dict(self.custom_objects)
        # Keras takes configurations apart, so each call gets its own.
        with keras.saving.custom_object_scope(custom_objects):
            try:
                model = keras.saving.deserialize_keras_object(
                    copy.deepcopy(self.config), custom_objects=custom_objects, safe_mode=False
                )
            except TypeError as exc:
                raise ValueError(
                    f"The Keras model cannot be built anew: let its class {self.config['class_name']} "
                    "implement `get_config`, which returns the arguments of its `__init__`, and give unknown "
                    "classes and functions as custom_objects."
                ) from exc
            if mode == ModeKeys.PREDICT:
                return model
            arguments = dict(self.compiled, loss=jax.tree.map(_for_replicas, self.compiled["loss"]))
            for name in ("metrics", "weighted_metrics"):
                metrics = arguments.pop(name)
                if mode == ModeKeys.EVAL:
                    arguments[name] = jax.tree.map(_new_metric, metrics)
            model.compile(self.optimizer(), jit_compile=False, auto_scale_loss=False, **arguments)
        return model

    def start(self, model: Any) -> None:
        """Let the variables that a model of this recipe has so far start from the original's values.

        Raises:
            ValueError: The model has other variables.
        """
        _start("weights", self.weights, model.weights)
        _start("seeds", self.seeds, _seeds(model))
        if model.compiled and model.optimizer.built:
            _start("optimizer variables", self.optimizer_values, model.optimizer.variables)


def _values(variables: Sequence[Any]) -> Values:
    return tuple((variable.path, np.array(value_of(variable))) for variable in variables)


def _seeds(model: Any) -> list[Any]:
    return [variable for variable in model.variables if variable.name == "seed_generator_state"]


def _from_config(kind: Any, config: dict[str, Any]) -> Any:
    return kind.from_config(copy.deepcopy(config))


def _optimizer_config(optimizer: Any) -> dict[str, Any]:
    """Return an optimizer's configuration without the number that tells it from others of this process."""
    with warnings.catch_warnings():  # Keras' variables have the __array__ of NumPy 1
        warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)
        config: dict[str, Any] = optimizer.get_config()
    name = re.sub(r"_[0-9]+$", "", config["name"])
    automatic = name.replace("_", "") == type(optimizer).__name__.lower()
    return config | {"name": name} if automatic else config


def _start(what: str, values: Values, variables: Sequence[Any]) -> None:
    if not values:
        return
    of_path = dict(values)
    if {variable.path for variable in variables} == of_path.keys() and len(of_path) == len(values):
        ordered = [of_path[variable.path] for variable in variables]
    else:  # layers that Keras names anew come in the same order
        ordered = [value for _, value in values]
    shapes = [value.shape for value in ordered]
    if shapes != [tuple(variable.shape) for variable in variables]:
        raise ValueError(
            f"The Keras model's {what} cannot be the starting point: it has {_listed(values)}, and built "
            f"anew {', '.join(f'{each.path} {tuple(each.shape)}' for each in variables) or 'none'}. Let "
            "`get_config` of its class return all that its layers depend on."
        )
    scope = active_scope("model_to_estimator")
    for variable, value in zip(variables, ordered, strict=True):
        scope.start_from(variable, partial(np.asarray, value))


def _listed(values: Values) -> str:
    return ", ".join(f"{path} {value.shape}" for path, value in values)


def _classes(layer: Any) -> Iterator[type]:
    """Yield the classes of a model and of the layers in it."""
    yield type(layer)
    inner = [*getattr(layer, "layers", ()), getattr(layer, "layer", None)]
    for each in inner:
        if isinstance(each, keras.Layer):
            yield from _classes(each)


def _uncompiled(config: Any) -> Any:
    """Return a configuration without how the models in it were compiled: only the outermost is trained."""
    if isinstance(config, dict):
        return {key: _uncompiled(each) for key, each in config.items() if key != "compile_config"}
    if isinstance(config, list | tuple):
        return type(config)(map(_uncompiled, config))
    return config


class _SummedLoss(keras.losses.Loss):  # type: ignore[misc]  # keras is untyped
    """A loss that is a sum over examples, so that the mean over the replicas is the sum over all examples."""

    def __init__(self, loss: Any) -> None:
        super().__init__(name=loss.name)
        self._loss = loss

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return self._loss(y_true, y_pred, sample_weight) / replica_weight()


def _for_replicas(loss: Any) -> Any:
    return _SummedLoss(loss) if getattr(loss, "reduction", None) == "sum" else loss


def _new_metric(metric: Any) -> Any:
    """Return a metric without what it has counted; names and functions stay as they are."""
    if isinstance(metric, keras.metrics.Metric):
        return type(metric).from_config(metric.get_config())
    return metric
