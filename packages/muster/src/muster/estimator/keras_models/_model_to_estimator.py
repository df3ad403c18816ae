"""`model_to_estimator`: an Estimator of a compiled Keras model."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
from muster.estimator.keras_models._recipe import ModelRecipe
from muster.program import get_or_create_global_step, minimize
from muster.program.variables.keras_internals import compiled_metrics

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
