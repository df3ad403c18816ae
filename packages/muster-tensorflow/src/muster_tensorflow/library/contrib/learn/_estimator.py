"""``tf.contrib.learn.Estimator``: ``fit``, ``evaluate``, ``predict``; model_fns that return ModelFnOps.

Source: tensorflow/contrib/learn/python/learn/estimators/estimator.py of TensorFlow 1.15.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from muster import estimator as core
from muster.estimator import EstimatorSpec, RunConfig, numpy_input_fn
from muster_tensorflow.library.contrib.learn._metric_spec import MetricSpec
from muster_tensorflow.library.contrib.learn._model_fn_ops import ModelFnOps, receiver_fn

Metrics = Mapping[Any, Any]
_OF_MODEL_FN = ("mode", "params", "config", "model_dir")


class Estimator:
    """Trains and evaluates a model that a function describes.

    Args:
        model_fn: Called with features and labels, and those of ``mode``, ``params``, ``config`` and
            ``model_dir`` that it names; returns `ModelFnOps`, or predictions, loss and train_op.
        model_dir: As for ``tf.estimator.Estimator``.
        config: Likewise.
        params: Likewise.
        feature_engineering_fn: Called with features and labels, returns both, for the model_fn.

    Raises:
        ValueError: There is no model_fn.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any] | None = None,
        model_dir: str | os.PathLike[str] | None = None,
        config: RunConfig | None = None,
        params: Any = None,
        feature_engineering_fn: Callable[[Any, Any], tuple[Any, Any]] | None = None,
    ) -> None:
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        self._default_alternative: str | None = None
        self._labels: Any = None
        self._names = frozenset(inspect.signature(model_fn).parameters).intersection(_OF_MODEL_FN)

        def described(features: Any, labels: Any, mode: Any, params: Any, config: Any) -> EstimatorSpec:
            labels = self._labels_for(features, labels)
            given = {"mode": mode, "params": params, "config": config, "model_dir": config.model_dir}
            if feature_engineering_fn is not None:
                features, labels = feature_engineering_fn(features, labels)
            returned = model_fn(features, labels, **{name: given[name] for name in self._names})
            if not isinstance(returned, ModelFnOps):
                if not isinstance(returned, tuple) or len(returned) != 3:
                    raise ValueError("Unrecognized value returned by model_fn, please return ModelFnOps.")
                returned = ModelFnOps(mode, *returned)
            return returned.estimator_spec(self._default_alternative)

        self._core = core.Estimator(described, model_dir, config, {} if params is None else params)

    @property
    def model_dir(self) -> str:
        """The directory of checkpoints and summaries."""
        return self._core.model_dir

    @property
    def config(self) -> RunConfig:
        """The `RunConfig`."""
        return self._core.config

    @property
    def params(self) -> Any:
        """A copy of what is passed to the model_fn."""
        return self._core.params

    def get_variable_names(self) -> list[str]:
        """Return the names of the variables in the newest checkpoint."""
        return self._core.get_variable_names()

    def get_variable_value(self, name: str) -> Any:
        """Return a variable's value in the newest checkpoint."""
        return self._core.get_variable_value(name)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[..., Any] | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        monitors: Any = None,
        max_steps: int | None = None,
    ) -> Self:
        """Train, with what an input_fn returns, or with arrays, which are shuffled.

        Raises:
            ValueError: There are both an input_fn and arrays, or neither.
        """
        input_fn = self._input_of(x, y, input_fn, batch_size, None, True)
        self._core.train(input_fn, monitors, steps, max_steps)
        return self

    partial_fit = fit

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[..., Any] | None = None,
        feed_fn: None = None,
        batch_size: int | None = None,
        steps: int | None = None,
        metrics: Metrics | None = None,
        name: str | None = None,
        checkpoint_path: str | None = None,
        hooks: Any = None,
        log_progress: bool = True,
    ) -> dict[str, Any]:
        """Evaluate: the loss, the model's metrics, and others.

        Args:
            x: Features, an array or arrays by name; None for an input_fn.
            y: Labels, likewise.
            input_fn: Returns a batch, or a dataset.
            feed_fn: Only None.
            batch_size: The number of examples of a batch of arrays; None for all.
            steps: How many batches; None for all.
            metrics: More metrics, `MetricSpec` s by name; or functions, by name or by a pair of a name and
                the key of a prediction.
            name: As for ``tf.estimator.Estimator.evaluate``, and so those below.
            checkpoint_path: Which checkpoint; None for the newest.
            hooks: Hooks.
            log_progress: Unused.

        Raises:
            ValueError: There are both an input_fn and arrays, or neither, or a feed_fn.
        """
        if feed_fn is not None:
            raise ValueError("evaluate takes no feed_fn: return the batch from the input_fn.")
        input_fn = self._input_of(x, y, input_fn, batch_size, 1, False)
        return dict(self.core_estimator(metrics).evaluate(input_fn, steps, hooks, checkpoint_path, name))

    def predict(
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        outputs: Sequence[str] | None = None,
        as_iterable: bool = True,
        iterate_batches: bool = False,
    ) -> Any:
        """Predict: an iterable of an example's predictions, or with ``as_iterable=False`` arrays of all.

        Args:
            x: Features, as for `evaluate`.
            input_fn: Likewise.
            batch_size: Likewise.
            outputs: Which of the predictions; None for all.
            as_iterable: Whether to return an iterable.
            iterate_batches: Whether it is one of batches.
        """
        input_fn = self._input_of(x, None, input_fn, batch_size, 1, False)
        single = as_iterable and not iterate_batches
        predicted = self._core.predict(input_fn, outputs, yield_single_examples=single)
        if as_iterable:
            return predicted
        return jax.tree.map(lambda *parts: np.concatenate(parts), *predicted)

    infer = predict

    def _labels_for(self, features: Any, labels: Any) -> Any:
        """Return labels, in prediction zeros like those of training: a model_fn without a mode asks for them.

        Source: ``Estimator._get_predict_ops``.
        """
        if labels is None and self._labels is not None:
            rows = jax.tree.leaves(features)[0].shape[0]
            return jax.tree.map(lambda each: jnp.zeros((rows, *each.shape[1:]), each.dtype), self._labels)
        if all(isinstance(each, jax.Array) for each in jax.tree.leaves(labels)):
            self._labels = jax.tree.map(lambda each: jax.ShapeDtypeStruct(each.shape, each.dtype), labels)
        return labels

    def _input_of(
        self,
        x: Any,
        y: Any,
        input_fn: Callable[..., Any] | None,
        batch_size: int | None,
        num_epochs: int | None,
        shuffle: bool,
    ) -> Callable[..., Any]:
        return _input_fn(x, y, input_fn, batch_size, num_epochs, shuffle)

    def export_savedmodel(
        self,
        export_dir_base: str | bytes | os.PathLike[str],
        serving_input_fn: Callable[[], Any],
        default_output_alternative_key: str | None = None,
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        **unused: Any,
    ) -> bytes:
        """Export the model, for requests as a serving_input_fn says: see ``export_saved_model``.

        Args:
            export_dir_base: As for ``export_saved_model``, and so those that are not described.
            serving_input_fn: Returns `InputFnOps` or a ``ServingInputReceiver``.
            default_output_alternative_key: Which of ``ModelFnOps.output_alternatives`` is answered.
            assets_extra: Files to copy.
            as_text: Ignored.
            checkpoint_path: Which checkpoint; None for the newest.
            **unused: Unused.
        """
        self._default_alternative = default_output_alternative_key
        receive = receiver_fn(serving_input_fn)
        return self._core.export_saved_model(export_dir_base, receive, assets_extra, as_text, checkpoint_path)

    def core_estimator(self, metrics: Metrics | None = None) -> core.Estimator:
        """Return the ``tf.estimator.Estimator`` of the same model and folder, maybe with more metrics.

        Args:
            metrics: As for `evaluate`.
        """
        if metrics is None:
            return self._core
        specs = {key if isinstance(key, str) else key[0]: _spec(key, each) for key, each in metrics.items()}

        def of(features: Any, labels: Any, predictions: Any) -> dict[str, Any]:
            return {
                name: spec.create_metric_ops(features, labels, predictions) for name, spec in specs.items()
            }

        return core.add_metrics(self._core, of)


def _spec(key: Any, metric: Any) -> MetricSpec:
    if isinstance(metric, MetricSpec):
        return metric
    return MetricSpec(metric, None if isinstance(key, str) else key[1])


def _input_fn(
    x: Any,
    y: Any,
    input_fn: Callable[..., Any] | None,
    batch_size: int | None,
    num_epochs: int | None,
    shuffle: bool,
) -> Callable[..., Any]:
    """Return an input_fn: the one that is given, or that of arrays."""
    if (x is None) == (input_fn is None):
        raise ValueError("Either x or input_fn must be provided, and not both.")
    if input_fn is not None:
        return input_fn
    arrays = {name: np.asarray(each) for name, each in x.items()} if isinstance(x, Mapping) else np.asarray(x)
    labels = None if y is None else np.asarray(y)
    size = batch_size or len(next(iter(arrays.values())) if isinstance(arrays, dict) else arrays)
    return numpy_input_fn(arrays, labels, size, num_epochs, shuffle)


class SKCompat:
    """Trains, scores and predicts with arrays, as scikit-learn does.

    Args:
        estimator: An `Estimator`.
    """

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator

    def fit(
        self,
        x: Any,
        y: Any,
        batch_size: int = 128,
        steps: int | None = None,
        max_steps: int | None = None,
        monitors: Iterable[Any] | None = None,
    ) -> Self:
        """Train with arrays."""
        self._estimator.fit(x, y, None, steps, batch_size, monitors, max_steps)
        return self

    def score(
        self,
        x: Any,
        y: Any,
        batch_size: int = 128,
        steps: int | None = None,
        metrics: Metrics | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Return the metrics of arrays."""
        return self._estimator.evaluate(x, y, None, None, batch_size, steps, metrics, name)

    def predict(self, x: Any, batch_size: int = 128, outputs: Sequence[str] | None = None) -> Any:
        """Return the predictions of arrays: an array, or arrays by name."""
        return self._estimator.infer(x, None, batch_size, outputs, as_iterable=False)
