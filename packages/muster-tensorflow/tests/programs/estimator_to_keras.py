"""A migration in two halves: an Estimator of TensorFlow 1 with hooks, and Keras' fit with callbacks."""

import os
import time

import numpy as np

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1

tf.keras.utils.set_random_seed(7)

features = [[1.0, 1.5], [2.0, 2.5], [3.0, 3.5]]
labels = [[0.3], [0.5], [0.7]]
eval_features = [[4.0, 4.5], [5.0, 5.5], [6.0, 6.5]]
eval_labels = [[0.8], [0.9], [1.0]]


def _input_fn():
    return tf1.data.Dataset.from_tensor_slices((features, labels)).batch(1)


def _eval_input_fn():
    return tf1.data.Dataset.from_tensor_slices((eval_features, eval_labels)).batch(1)


def _model_fn(features, labels, mode):
    logits = tf1.layers.Dense(1)(features)
    loss = tf1.losses.mean_squared_error(labels=labels, predictions=logits)
    optimizer = tf1.train.AdagradOptimizer(0.05)
    train_op = optimizer.minimize(loss, global_step=tf1.train.get_global_step())
    return tf1.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class CustomHook(tf1.train.SessionRunHook):
    def begin(self):
        self.steps, self.losses = 0, []

    def after_create_session(self, session, coord):
        print("Session created.")

    def before_run(self, run_context):
        self._start_time = time.time()
        return None

    def after_run(self, run_context, run_values):
        self.steps += 1

    def end(self, session):
        print("Final step count:", self.steps)


hook = CustomHook()
estimator = tf1.estimator.Estimator(model_fn=_model_fn)
estimator.train(_input_fn, hooks=[hook])
assert hook.steps == 3
result = estimator.evaluate(_eval_input_fn)
assert result["global_step"] == 3
assert np.isfinite(result["loss"])

# Checkpoints, and training that is stopped early.
config = tf1.estimator.RunConfig(save_checkpoints_steps=1, keep_checkpoint_max=2, model_dir="checkpoints")
estimator = tf1.estimator.Estimator(model_fn=_model_fn, config=config)
saver = tf1.train.CheckpointSaverHook(checkpoint_dir="saved_by_hook", save_steps=1)
estimator.train(_input_fn, saving_listeners=None, hooks=[saver])
assert tf1.train.latest_checkpoint("checkpoints").endswith("-3")
assert tf1.train.latest_checkpoint("saved_by_hook") is not None
early_stopping = tf1.estimator.experimental.stop_if_no_decrease_hook(
    estimator, "loss", max_steps_without_decrease=2, run_every_secs=None, run_every_steps=1
)
train_spec = tf1.estimator.TrainSpec(input_fn=_input_fn, max_steps=6, hooks=[early_stopping])
eval_spec = tf1.estimator.EvalSpec(input_fn=_eval_input_fn, steps=None, throttle_secs=0)
metrics, _ = tf1.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
assert metrics["global_step"] <= 6

# The second half: Keras.
dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(1)
eval_dataset = tf.data.Dataset.from_tensor_slices((eval_features, eval_labels)).batch(1)
model = tf.keras.models.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adagrad(learning_rate=0.05)
model.compile(optimizer=optimizer, loss="mse", metrics=[tf.keras.metrics.MeanAbsoluteError()])


class CustomCallback(tf.keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.steps = 0

    def on_train_batch_begin(self, batch, logs=None):
        self._start_time = time.time()

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        assert "loss" in logs

    def on_train_end(self, logs=None):
        print("Final step count:", self.steps)


class LimitedTrainingTime(tf.keras.callbacks.Callback):
    def __init__(self, max_train_seconds):
        super().__init__()
        self.max_train_seconds = max_train_seconds

    def on_train_begin(self, logs=None):
        self.start = time.time()

    def on_train_batch_end(self, batch, logs=None):
        if time.time() - self.start > self.max_train_seconds:
            self.model.stop_training = True


callback = CustomCallback()
model.fit(dataset, callbacks=[callback, LimitedTrainingTime(60)], verbose=0)
assert callback.steps == 3
before = model.evaluate(eval_dataset, return_dict=True, verbose=0)
history = model.fit(
    dataset,
    validation_data=eval_dataset,
    epochs=20,
    verbose=0,
    callbacks=[
        tf.keras.callbacks.EarlyStopping(monitor="val_loss", patience=2),
        tf.keras.callbacks.ModelCheckpoint("best.keras", save_best_only=True, monitor="val_loss"),
        tf.keras.callbacks.CSVLogger("log.csv"),
        tf.keras.callbacks.TerminateOnNaN(),
    ],
)
assert history.history["val_loss"][0] != before["loss"]
assert os.path.exists("best.keras")
assert len(open("log.csv").readlines()) == len(history.history["loss"]) + 1
print("ok")
