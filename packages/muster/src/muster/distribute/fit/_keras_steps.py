"""Keras' steps with TensorFlow's signature, for models that call ``super().train_step(data)``."""

import functools
from collections.abc import Callable
from typing import Any

from muster._keras import keras
from muster.program import GradientTape
from muster.program.variables import keras_step, predictions


def train_step(model: Any, data: Any) -> Any:
    """Take a training step on a batch, in a step that is being traced, and return the metrics.

    Source: keras/src/backend/tensorflow/trainer.py, ``TensorFlowTrainer.train_step``.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    with GradientTape() as tape:
        y_pred, loss = keras_step(model, x, y, sample_weight, training=True)
        if model.optimizer is not None:
            loss = model.optimizer.scale_loss(loss)
    if model.trainable_weights:
        model.optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
    return model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)


def test_step(model: Any, data: Any) -> Any:
    """Take an evaluation step on a batch, in a step that is being traced, and return the metrics."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    y_pred, _ = keras_step(model, x, y, sample_weight, training=False)
    return model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)


def predict_step(model: Any, data: Any) -> Any:
    """Return the predictions for a batch, in a step that is being traced."""
    return predictions(model, keras.utils.unpack_x_y_sample_weight(data)[0], training=False)


KERAS_STEPS = {"train_step": train_step, "test_step": test_step, "predict_step": predict_step}


def taking_data(original: Callable[..., Any], step: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Let one of Keras' steps, which takes a state and data, take the data alone as well."""

    @functools.wraps(original)
    def either(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) + len(kwargs) == 1 and "state" not in kwargs:
            return step(self, *args, **kwargs)
        return original(self, *args, **kwargs)

    return either
