"""`model_to_estimator`: an Estimator of a compiled Keras model, as data from which it is built again."""

import copy
import dataclasses
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax
import numpy as np

from muster._keras import keras
from muster._paths import local_path
from muster.estimator._estimator import Estimator
from muster.estimator._estimator_spec import (
    DEFAULT_SIGNATURE,
    EstimatorSpec,
    ExportOutput,
    ModeKeys,
    PredictOutput,
)
from muster.estimator._run_config import RunConfig
from muster.estimator.keras_models._batch import keras_batch, named_outputs, output_names
from muster.program import get_or_create_global_step, minimize, replica_weight
from muster.program.variables import active_scope
from muster.program.variables.keras_internals import compile_arguments, compiled_metrics, value_of

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


_FORMATS = ("checkpoint", "saver")


def model_to_estimator(
    keras_model: Any = None,
    keras_model_path: str | os.PathLike[str] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    model_dir: str | os.PathLike[str] | None = None,
    config: RunConfig | None = None,
    checkpoint_format: str | None = "checkpoint",
    metric_names_map: Mapping[str, str] | None = None,
    export_outputs: Mapping[str, Callable[[Any], ExportOutput]] | None = None,
) -> Estimator:
    """Return an Estimator that trains a compiled Keras model, by its loss, metrics and optimizer.

    Training starts from the weights and the optimizer's state that the model has now, as long as the model
    directory has no checkpoint. The model itself stays as it is. Models with a ``train_step`` of their own
    are trained by their loss and optimizer nevertheless.

    The input_fn returns features by the names of the model's inputs, or in their order, and labels by the
    names of its outputs; for weights of examples, features ``{"features": …, "sample_weights": …}``.

    Args:
        keras_model: The compiled model; or else
        keras_model_path: A file that ``model.save`` wrote.
        custom_objects: Classes and functions of the model by name, which Keras does not find.
        model_dir: The directory of checkpoints and summaries; None for the config's, else a temporary one.
        config: How to run; None for the defaults.
        checkpoint_format: ``checkpoint`` or ``saver``, as in TensorFlow; muster has one format.
        metric_names_map: Name of a metric in Keras -> its name in evaluations, for all metrics.
        export_outputs: Name of an output -> the class of a further signature of the exported model.

    Raises:
        ValueError: Not exactly one model is given, it is not compiled or cannot be built anew, or another
            argument is unfit.
        KeyError: ``export_outputs`` names an output that the model does not have.

    Source: ``tf.keras.estimator.model_to_estimator`` (tensorflow_estimator/python/estimator/keras_lib.py).
    Departs in that subclassed models keep their weights and optimizers their state.

    Example:
        ```python
        model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(1, name="y")])
        model.compile("sgd", "mse")
        estimator = muster.estimator.model_to_estimator(model, model_dir="runs/converted")
        data = {"x": np.ones((8, 4), np.float32)}, np.ones((8, 1), np.float32)
        estimator.train(lambda: data, steps=1)
        ```
    """
    custom_objects = custom_objects or {}
    if checkpoint_format not in (None, *_FORMATS):
        raise ValueError(
            f"checkpoint_format must be one of {', '.join(_FORMATS)}, got {checkpoint_format!r}."
        )
    model = _model(keras_model, keras_model_path, custom_objects)
    if not getattr(model, "compiled", False) or model.optimizer is None:
        raise ValueError(
            f"The given Keras model {model.name!r} has not been compiled yet: call model.compile() before "
            "model_to_estimator."
        )
    names = output_names(model)
    unknown = sorted(set(export_outputs or ()) - set(names or ()))
    if names is not None and unknown:
        raise KeyError(
            f"export_outputs has the keys {', '.join(unknown)}, which are no outputs of the Keras model: it "
            f"has {', '.join(names)}."
        )
    model_fn = KerasModelFn(ModelRecipe.of(model, custom_objects), metric_names_map, export_outputs or {})
    return Estimator(model_fn, model_dir, config)


def _model(given: Any, path: str | os.PathLike[str] | None, custom_objects: Mapping[str, Any]) -> Any:
    if (given is None) == (path is None):
        both = "but not both" if path is not None else "and neither is given"
        raise ValueError(f"Either `keras_model` or `keras_model_path` needs to be provided, {both}.")
    if path is not None:
        return keras.saving.load_model(local_path(path), custom_objects=dict(custom_objects))
    if not isinstance(given, keras.Model):
        raise ValueError(f"keras_model must be a keras.Model, got {given!r}.")
    return given


@dataclass(frozen=True)
class KerasModelFn:
    """A model_fn that builds a Keras model.

    Args:
        recipe: How to build it.
        metric_names_map: Name of a metric in Keras -> its name in evaluations; None for the same names.
        export_outputs: Name of an output -> the class of a signature.
    """

    recipe: ModelRecipe
    metric_names_map: Mapping[str, str] | None
    export_outputs: Mapping[str, Callable[[Any], ExportOutput]]

    def __call__(self, features: Any, labels: Any, mode: ModeKeys) -> EstimatorSpec:
        model = self.recipe.build(mode)
        batch = keras_batch(model, features, labels)
        outputs = model(batch.x, training=mode == ModeKeys.TRAIN)
        predictions = named_outputs(model, outputs)
        if mode == ModeKeys.PREDICT:
            self.recipe.start(model)
            signatures: dict[str, ExportOutput] = {DEFAULT_SIGNATURE: PredictOutput(predictions)}
            for name, output in self.export_outputs.items():
                signatures[name] = output(predictions[name])
            return EstimatorSpec(mode, predictions=predictions, export_outputs=signatures)
        loss = model.compute_loss(x=batch.x, y=batch.y, y_pred=outputs, sample_weight=batch.sample_weight)
        if mode == ModeKeys.EVAL:
            model.compute_metrics(batch.x, batch.y, outputs, batch.sample_weight)
            self.recipe.start(model)
            metrics = self._renamed(compiled_metrics(model))
            return EstimatorSpec(mode, predictions=predictions, loss=loss, eval_metric_ops=metrics)
        train_op = minimize(
            model.optimizer,
            loss,
            global_step=get_or_create_global_step(),
            var_list=model.trainable_variables,
        )
        self.recipe.start(model)
        return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op)

    def _renamed(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metrics by the names that the user wants."""
        names = self.metric_names_map
        if names is None:
            return dict(metrics)
        if set(names) != set(metrics):
            raise ValueError(
                "Invalid `metric_names_map`: it must name all metrics of the Keras model and no others. "
                f"Expected keys: {', '.join(metrics) or 'none'}. Got: {', '.join(names)}."
            )
        return {names[name]: metric for name, metric in metrics.items()}
