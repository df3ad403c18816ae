"""The guide's CNN as a ``model_fn`` in muster's names, with its input."""

import os
from collections.abc import Callable
from typing import Any

from bench._gpu.nets import GuidesNetwork

import muster
from muster import keras
from muster.data import Dataset
from muster.estimator import EstimatorSpec, ModeKeys, PredictOutput

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def first_device() -> str:
    """Return the name of the one device that parts compute on."""
    return "/cpu:0" if os.environ["JAX_PLATFORMS"] == "cpu" else "/gpu:0"


def model_fn_of(chosen: GuidesNetwork) -> Callable[..., EstimatorSpec]:
    """Return the ``model_fn`` of a size of the net."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        logits = chosen.keras_model(keras)(features["image"], training=mode == ModeKeys.TRAIN)
        predictions = {
            "classes": keras.ops.argmax(logits, axis=1),
            "probabilities": keras.ops.softmax(logits),
        }
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(
                mode, predictions=predictions, export_outputs={"serving_default": PredictOutput(predictions)}
            )
        loss = LOSS(labels, logits)
        step = muster.get_or_create_global_step()
        train_op = muster.minimize(chosen.keras_optimizer(keras), loss, step)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def input_fn_of(chosen: GuidesNetwork) -> Callable[[], Dataset]:
    """Return an ``input_fn`` that shuffles the images and repeats them without end."""

    def input_fn() -> Dataset:
        images, labels = chosen.data()
        dataset = Dataset.from_tensor_slices(({"image": images}, labels))
        return dataset.shuffle(len(images)).repeat().batch(chosen.batch)

    return input_fn
