"""`EstimatorSpec`, which a model_fn returns, and the outputs of an exported model."""

import dataclasses
import enum
import math
from collections.abc import Container, Iterable, Mapping, MutableMapping
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from muster._arrays import AnyArray
from muster._keras import keras
from muster.estimator._checks import check_instances
from muster.estimator._words import Passed, Words
from muster.estimator.hooks._base import SessionRunHook
from muster.program import HostValue, TrainOp


class ModeKeys(enum.StrEnum):
    """The modes in which a model_fn is called; each equals its text.

    Source: ``tf.estimator.ModeKeys`` (tensorflow/python/saved_model/model_utils/mode_keys.py).

    Example:
        ```python
        def model_fn(features, labels, mode):
            predictions = keras.layers.Dense(1)(features)
            if mode == muster.estimator.ModeKeys.PREDICT:
                return muster.estimator.EstimatorSpec(mode, predictions=predictions)
            loss = keras.ops.mean((predictions - labels) ** 2)
            if mode == muster.estimator.ModeKeys.EVAL:
                return muster.estimator.EstimatorSpec(mode, loss=loss)
            train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
            return muster.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

        data = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
        estimator = muster.estimator.Estimator(model_fn, "runs/modes").train(lambda: data, steps=1)
        assert estimator.evaluate(lambda: data)["global_step"] == 1
        ```
    """

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class ModelSetup:
    """Sets what variables start from, and how many checkpoints training keeps; this one changes nothing.

    A front end derives from it what its programs put into an `EstimatorSpec`.
    """

    @property
    def retention(self) -> tuple[int | None, float] | None:
        """The number of checkpoints to keep, and the hours between older ones; None for the config's."""
        return None

    def initialize(self, values: MutableMapping[str, Any]) -> None:
        """Change the values from which variables start, by path, where no checkpoint is restored."""

    def chosen(
        self, stored: Mapping[str, AnyArray], source: str, without: Container[str]
    ) -> Mapping[str, AnyArray]:
        """Return values that variables have in evaluation and prediction, by path, instead of their own.

        Args:
            stored: Name in a checkpoint -> value.
            source: The path of the checkpoint.
            without: The paths of variables to leave out.
        """
        return {}


DEFAULT_SIGNATURE = "serving_default"


class ExportOutput:
    """Base class of the outputs of an exported model's signature.

    Source: ``tf.estimator.export.ExportOutput`` (tensorflow/python/saved_model/model_utils/export_output.py).
    """


@dataclasses.dataclass(frozen=True)
class PredictOutput(ExportOutput):
    """Any outputs.

    Args:
        outputs: Arrays by name, or one array.
    """

    outputs: Any


@dataclasses.dataclass(frozen=True)
class ClassificationOutput(ExportOutput):
    """Classes, or their scores, or both.

    Args:
        scores: Float array of shape (batch, classes).
        classes: Array of text of shape (batch, classes), `Words` or known; known text may be that of any row.
    """

    scores: Any = None
    classes: Any = None

    def __post_init__(self) -> None:
        if self.scores is None and self.classes is None:
            raise ValueError(
                "Cannot create a ClassificationOutput with empty arguments: give scores or classes."
            )
        if isinstance(self.classes, np.ndarray) and self.classes.dtype.kind in "SUO":
            object.__setattr__(self, "classes", Words.of(self.classes))


@dataclasses.dataclass(frozen=True)
class RegressionOutput(ExportOutput):
    """Predicted values.

    Args:
        value: Float array of shape (batch,) or (batch, 1).
    """

    value: Any


class _Fields(NamedTuple):
    mode: ModeKeys
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Mapping[str, Any]
    export_outputs: Mapping[str, ExportOutput] | None
    training_chief_hooks: tuple[SessionRunHook, ...]
    training_hooks: tuple[SessionRunHook, ...]
    scaffold: ModelSetup
    evaluation_hooks: tuple[SessionRunHook, ...]
    prediction_hooks: tuple[SessionRunHook, ...]


class EstimatorSpec(_Fields):
    """The values and hooks that a model_fn returns.

    Follows ``tf.estimator.EstimatorSpec`` (tensorflow_estimator/python/estimator/model_fn.py), but refuses an
    unknown mode. An "array" below is a NumPy or JAX array, one that is being traced, or a ``keras.Variable``;
    predictions may be `Words`, too, which become text. Features that are text, or integers of 64 bits, may
    be among them, too, and what functions of text make of them; they are passed on as they are.

    Args:
        mode: The mode that the model_fn was called in.
        predictions: An array, or a dict of arrays, of shape (batch, ...). Needed to predict.
        loss: A float array of one element, per replica. Needed to train and to evaluate.
        train_op: What `minimize` returned. Needed to train.
        eval_metric_ops: By name, a ``keras.metrics.Metric`` that has been updated with this batch, or a pair
            (value, update) as the functions of ``tf.metrics`` return. A value may be a summary, too, such as
            that of images of the last batch.
        export_outputs: By name of a signature, an `ExportOutput`. One must be called ``"serving_default"`` if
            there are several; by default it returns the predictions.
        training_chief_hooks: Hooks that run in training, on the chief.
        training_hooks: Hooks that run in training, on every worker.
        scaffold: What is done before the first step; None for a new `ModelSetup`, which does nothing.
        evaluation_hooks: Hooks that run in evaluation.
        prediction_hooks: Hooks that run in prediction.

    Raises:
        TypeError: A part has the wrong type.
        ValueError: A part is missing or has a wrong shape.

    Example:
        ```python
        def model_fn(features, labels, mode):
            logits = keras.layers.Dense(1)(features)
            if mode == muster.estimator.ModeKeys.PREDICT:
                return muster.estimator.EstimatorSpec(mode, predictions={"y": logits})
            loss = keras.ops.mean((logits - labels) ** 2)
            train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
            return muster.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
        ```
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Mapping[str, Any] | None = None,
        export_outputs: Mapping[str, ExportOutput] | None = None,
        training_chief_hooks: Iterable[SessionRunHook] | None = None,
        training_hooks: Iterable[SessionRunHook] | None = None,
        scaffold: ModelSetup | None = None,
        evaluation_hooks: Iterable[SessionRunHook] | None = None,
        prediction_hooks: Iterable[SessionRunHook] | None = None,
    ) -> Self:
        if mode not in tuple(ModeKeys):
            raise ValueError(f"mode must be one of {[str(each) for each in ModeKeys]}, given: {mode!r}.")
        mode = ModeKeys(mode)
        _check_train_op(train_op, mode)
        loss = _scalar_loss(loss, mode)
        predictions = _checked_predictions(predictions, mode)
        if mode == ModeKeys.PREDICT:
            export_outputs = _checked_export_outputs(export_outputs, predictions)
        metrics = _checked_metrics(eval_metric_ops)
        hooks = [
            check_instances("All hooks must be SessionRunHook", SessionRunHook, values)
            for values in (training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks)
        ]
        scaffold = scaffold or ModelSetup()
        if not isinstance(scaffold, ModelSetup):
            raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
        return super().__new__(
            cls,
            mode,
            predictions,
            loss,
            train_op,
            metrics,
            export_outputs,
            hooks[0],
            hooks[1],
            scaffold,
            hooks[2],
            hooks[3],
        )

    def _replace(self, **changes: Any) -> Self:
        """Return a copy with other values, which are checked. The mode stays as it is."""
        if changes.get("mode", self.mode) != self.mode:
            raise ValueError(f"mode of EstimatorSpec cannot be changed. Given: {changes['mode']!r}")
        return type(self)(**(self._asdict() | changes))


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray | np.generic | jax.Array | keras.Variable)


def _is_prediction(value: object) -> bool:
    return _is_array(value) or isinstance(value, Words | HostValue | Passed)


def _check_train_op(train_op: object, mode: ModeKeys) -> None:
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op. Give the EstimatorSpec what `minimize` returned.")
    elif not (isinstance(train_op, TrainOp) or _is_array(train_op)):
        raise TypeError(
            f"train_op must be Operation or Tensor, given: {train_op}. Give what `minimize` returned."
        )


def _scalar_loss(loss: Any, mode: ModeKeys) -> Any:
    """Return the loss with the shape ()."""
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss. Give the EstimatorSpec one in the modes TRAIN and EVAL.")
        return None
    if not _is_array(loss):
        raise TypeError(f"loss must be Tensor, given: {loss}")
    if math.prod(loss.shape) != 1:
        raise ValueError(f"Loss must be scalar, given: {loss}. Reduce it to its mean over the batch.")
    value = loss.value if isinstance(loss, keras.Variable) else loss
    # The very array that was minimized, if it can be: it has been reduced over the replicas already.
    return value if isinstance(value, jax.Array) and value.ndim == 0 else jnp.reshape(value, ())


def _checked_predictions(predictions: Any, mode: ModeKeys) -> Any:
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions. Give the EstimatorSpec some in the mode PREDICT.")
        return {}
    if isinstance(predictions, Mapping):
        for key, value in predictions.items():
            if not _is_prediction(value):
                raise TypeError(f"predictions[{key}] must be Tensor, given: {value}")
    elif not _is_prediction(predictions):
        raise TypeError(f"predictions must be Tensor, given: {predictions}")
    return predictions


def _checked_metrics(metrics: object) -> Mapping[str, Any]:
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics}")
    for key, value in metrics.items():
        is_pair = isinstance(value, tuple) and len(value) == 2
        if not (is_pair or isinstance(value, keras.metrics.Metric)):
            raise TypeError(
                "Values of eval_metric_ops must be (metric_value, update_op) tuples, "
                f"given: {value} for key: {key}. A keras.metrics.Metric will do too."
            )
    return metrics


def _checked_export_outputs(outputs: object, predictions: Any) -> dict[str, ExportOutput]:
    """Return the signatures, one of which is the default."""
    if outputs is None:
        return {DEFAULT_SIGNATURE: PredictOutput(predictions)}
    if not isinstance(outputs, Mapping):
        raise TypeError(f"`export_outputs` must be dict, received: {outputs}.")
    if not all(isinstance(output, ExportOutput) for output in outputs.values()):
        raise TypeError(f"Values in `export_outputs` must be ExportOutput objects, received: {outputs}.")
    if len(outputs) > 1 and DEFAULT_SIGNATURE not in outputs:
        raise ValueError(
            "Multiple `export_outputs` were provided, but none of them are specified as the default. Use"
            "`tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY` to specify a default. "
            f"It is {DEFAULT_SIGNATURE!r}; given: {list(outputs)}."
        )
    if len(outputs) == 1:
        return {**outputs, DEFAULT_SIGNATURE: next(iter(outputs.values()))}
    return dict(outputs)
