"""Models that ignore the features."""

import jax
import jax.numpy as jnp

from muster._keras import keras
from muster.estimator._mode_keys import ModeKeys
from muster.estimator.canned._canned_estimator import Part
from muster.estimator.canned._optimizer_makers import OptimizerLike, optimizer_maker
from muster.feature_column import FeatureColumn, Features

_LEARNING_RATE = 0.3


class BaselineLogits:
    """The same logits for every example: the variable ``baseline/bias``, of shape (units,), from zero on.

    Source: ``_baseline_model_fn_builder_v2`` (tensorflow_estimator/python/estimator/canned/baseline.py).
    """

    columns: tuple[FeatureColumn, ...] = ()

    def __call__(self, features: Features, units: int, mode: ModeKeys) -> jax.Array:
        """Return the logits of each example: float32 of shape (batch, units)."""
        with keras.name_scope("baseline"):
            bias = keras.Variable("zeros", (units,), "float32", name="bias").value
        rows = jax.tree.leaves(features)[0].shape[0]
        return jnp.broadcast_to(bias, (rows, units))


def baseline_part(optimizer: OptimizerLike) -> Part:
    """Return such a model as a part of a canned one; an optimizer by name has the learning rate 0.3.

    Raises:
        ValueError: There is no such optimizer.
    """
    return Part(BaselineLogits(), optimizer_maker(optimizer, _LEARNING_RATE))
