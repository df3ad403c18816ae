"""The base classes of the canned Estimators of ``tf.contrib.learn``, and columns inferred from their input.

Source: tensorflow/contrib/learn/python/learn/estimators/ of TensorFlow 1.15: dnn.py, estimator.py, head.py.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from muster import estimator as core
from muster.data import Dataset
from muster.estimator import EstimatorSpec
from muster_tensorflow.library.contrib import columns
from muster_tensorflow.library.contrib.learn._estimator import Estimator
from muster_tensorflow.library.ops.arrays._shape import squeeze
from muster_tensorflow.programs.v1.estimator._arguments import OPTIMIZERS
from muster_tensorflow.programs.v1.training._optimizers import KerasBacked


class Canned(Estimator):
    """Trains, evaluates and predicts with a canned model.

    Args:
        canned: The Estimator of ``tf.compat.v1.estimator``.

    Attributes:
        default: The prediction that `predict` returns if it is not told which.
        metrics: The names of metrics, by those that the canned Estimator has for them.
    """

    default: ClassVar[str]
    metrics: ClassVar[Mapping[str, str]] = {}

    def __init__(self, canned: core.Estimator) -> None:
        self._default_alternative = None

        def described(features: Any, labels: Any, mode: Any) -> EstimatorSpec:
            spec = canned.model_fn(features, labels, mode)
            metrics = spec.eval_metric_ops or {}
            return spec._replace(
                predictions=None if spec.predictions is None else self._named(spec.predictions),
                eval_metric_ops={
                    self.metrics[name]: each for name, each in metrics.items() if name in self.metrics
                },
            )

        self._core = canned.with_model_fn(described)

    def _named(self, predictions: Mapping[str, Any]) -> dict[str, Any]:
        """Return a batch's predictions by their names."""
        raise NotImplementedError

    def _input_of(
        self,
        x: Any,
        y: Any,
        input_fn: Callable[..., Any] | None,
        batch_size: int | None,
        num_epochs: int | None,
        shuffle: bool,
    ) -> Callable[..., Any]:
        return _with_names(super()._input_of(x, y, input_fn, batch_size, num_epochs, shuffle))

    def predict(
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        outputs: Sequence[str] | None = None,
        as_iterable: bool = True,
        iterate_batches: bool = False,
    ) -> Any:
        """Predict: of each example the prediction that `default` names, or dicts of those in ``outputs``."""
        if outputs is None:
            return self._only(self.default, x, input_fn, batch_size, as_iterable)
        return self.infer(x, input_fn, batch_size, outputs, as_iterable, iterate_batches)

    def _only(self, key: str, x: Any, input_fn: Any, batch_size: int | None, as_iterable: bool) -> Any:
        found = self.infer(x, input_fn, batch_size, [key], as_iterable)
        return (each[key] for each in found) if as_iterable else found[key]


class Classifier(Canned):
    default = "classes"
    metrics = {
        "accuracy": "accuracy",
        "accuracy_baseline": "accuracy/baseline_label_mean",
        "auc": "auc",
        "auc_precision_recall": "auc_precision_recall",
        "label/mean": "labels/actual_label_mean",
        "precision": "precision/positive_threshold_0.500000_mean",
        "prediction/mean": "labels/prediction_mean",
        "recall": "recall/positive_threshold_0.500000_mean",
    }

    def __init__(self, canned: core.Estimator, label_keys: Sequence[str] | None) -> None:
        self._classes = "class_ids" if label_keys is None else "classes"
        super().__init__(canned)

    def _named(self, predictions: Mapping[str, Any]) -> dict[str, Any]:
        kept = {
            name: predictions[name] for name in ("logistic", "logits", "probabilities") if name in predictions
        }
        return {"classes": squeeze(predictions[self._classes], [1]), **kept}

    def predict_classes(
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        as_iterable: bool = True,
    ) -> Any:
        """Return the classes of examples: see `predict`."""
        return self._only("classes", x, input_fn, batch_size, as_iterable)

    def predict_proba(
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        as_iterable: bool = True,
    ) -> Any:
        """Return the probabilities of all classes, of each example: see `predict`."""
        return self._only("probabilities", x, input_fn, batch_size, as_iterable)


class Regressor(Canned):
    default = "scores"

    def _named(self, predictions: Mapping[str, Any]) -> dict[str, Any]:
        scores = predictions["predictions"]
        return {"scores": squeeze(scores, [1]) if scores.shape[1] == 1 else scores}

    def predict_scores(
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        as_iterable: bool = True,
    ) -> Any:
        """Return the numbers of examples: see `predict`."""
        return self._only("scores", x, input_fn, batch_size, as_iterable)


def _with_names(input_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return an input_fn whose features are in a dict: those that are in none get the name ``""``."""

    @functools.wraps(input_fn)
    def named(*args: Any, **kwargs: Any) -> Any:
        returned = input_fn(*args, **kwargs)
        if isinstance(returned, Dataset):
            spec = returned.element_spec
            features = spec[0] if isinstance(spec, tuple) else spec
            return returned if isinstance(features, Mapping) else returned.map(_named_element)
        return _named_element(*returned) if isinstance(returned, tuple) else _named_element(returned)

    return named


def _named_element(features: Any, *labels: Any) -> Any:
    features = features if isinstance(features, Mapping) else {"": features}
    return (features, *labels) if labels else features


def infer_real_valued_columns_from_input_fn(input_fn: Callable[..., Any]) -> list[Any]:
    """Return a column of numbers for each feature that an input_fn returns.

    Raises:
        ValueError: A feature is no matrix, or not of numbers.
    """
    returned = _with_names(input_fn)()
    if isinstance(returned, Dataset):
        returned = next(iter(returned))
    features = returned[0] if isinstance(returned, tuple) else returned
    return [_column(name, np.asarray(features[name])) for name in sorted(features)]


def infer_real_valued_columns_from_input(x: Any) -> list[Any]:
    """Return a column of numbers for an array, or for each array of a dict.

    Raises:
        ValueError: An array is no matrix, or not of numbers.
    """
    return infer_real_valued_columns_from_input_fn(lambda: x if isinstance(x, Mapping) else np.asarray(x))


def _column(name: str, values: np.ndarray[Any, Any]) -> Any:
    if values.ndim != 2 or values.dtype.kind not in "iuf":
        raise ValueError(
            f"The feature {name!r} should be numbers of shape (examples, dimension), got {values.dtype} of "
            f"shape {values.shape}."
        )
    return columns.real_valued_column(name, values.shape[1], dtype=values.dtype)


def clipped(optimizer: Any, norm: float | None, default: str, rate: float) -> Any:
    """Return the optimizer of a canned Estimator whose gradients have at most a norm.

    Args:
        optimizer: A name, an optimizer of ``tf.train``, or a function that returns one; None for the default.
        norm: The largest norm of all gradients together; None for any.
        default: The name of the default.
        rate: The learning rate of an optimizer that is given by name.
    """
    chosen = default if optimizer is None else optimizer
    if norm is None:
        return chosen

    def made() -> KerasBacked:
        new = OPTIMIZERS[chosen](rate) if isinstance(chosen, str) else chosen
        return (new if isinstance(new, KerasBacked) else new()).clipped(norm)

    return made


def require_none(*arguments: Any) -> None:
    """Check that no argument is given that the canned Estimators here do not have.

    Raises:
        ValueError: One is.
    """
    if any(arguments):
        raise ValueError(
            "enable_centered_bias must be False, and feature_engineering_fn and embedding_lr_multipliers "
            "None: change features in the input_fn."
        )
