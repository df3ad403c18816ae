"""An Estimator that is trained, evaluated and asked for predictions under a strategy."""

import jax.numpy as jnp
import numpy as np

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig
from noted_losses import Losses

layers = keras.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(250, 8, 8, 1)).astype(np.float32)
Y = RNG.integers(0, 3, 250)


def plain():
    return keras.Sequential(
        [layers.Conv2D(4, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(), layers.Dense(3)]
    )


def model_fn_of(optimizer):
    def model_fn(features, labels, mode):
        logits = plain()(features)
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions={"logits": logits})
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
        if mode == ModeKeys.EVAL:
            accuracy, count = (
                keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
                keras.metrics.Sum("count"),
            )
            accuracy.update_state(labels, logits)
            count.update_state(jnp.ones_like(labels, "float32"))
            return EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy, "count": count})
        train_op = muster.minimize(optimizer(), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def trained(tmp_path, strategy, optimizer):
    """Return losses, weights, metrics and predictions of 50 steps, the fourth of each epoch of 58 rows."""
    replicas = strategy.num_replicas_in_sync if strategy else 1
    config = RunConfig(tf_random_seed=1, train_distribute=strategy, eval_distribute=strategy)
    est, hook = Estimator(model_fn_of(optimizer), tmp_path, config), Losses()
    est.train(
        lambda: Dataset.from_tensor_slices((X, Y)).batch(64 // replicas).repeat(), hooks=[hook], steps=50
    )
    weights = {name: est.get_variable_value(name) for name in est.get_variable_names()}
    metrics = est.evaluate(lambda: Dataset.from_tensor_slices((X, Y)).batch(60 // replicas))
    predictions = np.array(
        [p["logits"] for p in est.predict(lambda: Dataset.from_tensor_slices(X).batch(64))]
    )
    return hook.losses, weights, metrics, predictions
