"""Tune three hyperparameters, and log what they were and how well each run did, for the HParams tab."""

import os
import tempfile

from sklearn.datasets import load_iris

import muster_tensorflow as tf
from muster_tensorflow.tensorboard.plugins.hparams import api as hp

iris = load_iris()
x = iris.data.astype("float32")
y = iris.target
x_train, y_train, x_test, y_test = x[::2], y[::2], x[1::2], y[1::2]

HP_NUM_UNITS = hp.HParam("num_units", hp.Discrete([8, 16]))
HP_DROPOUT = hp.HParam("dropout", hp.RealInterval(0.0, 0.1))
HP_OPTIMIZER = hp.HParam("optimizer", hp.Discrete(["adam", "sgd"]))
METRIC_ACCURACY = "accuracy"

root = tempfile.mkdtemp()
with tf.summary.create_file_writer(os.path.join(root, "hparam_tuning")).as_default():
    hp.hparams_config(
        hparams=[HP_NUM_UNITS, HP_DROPOUT, HP_OPTIMIZER],
        metrics=[hp.Metric(METRIC_ACCURACY, display_name="Accuracy")],
    )


def train_test_model(run_dir, hparams):
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.models.Sequential(
        [
            tf.keras.layers.Dense(hparams[HP_NUM_UNITS], activation=tf.nn.relu),
            tf.keras.layers.Dropout(hparams[HP_DROPOUT]),
            tf.keras.layers.Dense(3, activation=tf.nn.softmax),
        ]
    )
    model.compile(
        optimizer=hparams[HP_OPTIMIZER], loss="sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    callbacks = [tf.keras.callbacks.TensorBoard(run_dir), hp.KerasCallback(run_dir, hparams)]
    model.fit(x_train, y_train, epochs=10, batch_size=8, verbose=0, callbacks=callbacks)
    _, accuracy = model.evaluate(x_test, y_test, verbose=0)
    return accuracy


def run(run_dir, hparams):
    with tf.summary.create_file_writer(run_dir).as_default():
        hp.hparams(hparams)
        accuracy = train_test_model(run_dir, hparams)
        tf.summary.scalar(METRIC_ACCURACY, accuracy, step=1)
    return accuracy


session_num = 0
accuracies = {}
for num_units in HP_NUM_UNITS.domain.values:
    for dropout_rate in (HP_DROPOUT.domain.min_value, HP_DROPOUT.domain.max_value):
        for optimizer in HP_OPTIMIZER.domain.values:
            hparams = {HP_NUM_UNITS: num_units, HP_DROPOUT: dropout_rate, HP_OPTIMIZER: optimizer}
            run_name = f"run-{session_num}"
            print("--- Starting trial:", run_name, {h.name: hparams[h] for h in hparams})
            accuracies[run_name] = run(os.path.join(root, "hparam_tuning", run_name), hparams)
            session_num += 1

assert session_num == 8
assert max(accuracies.values()) > 0.6, accuracies
for name, accuracy in accuracies.items():
    folder = os.path.join(root, "hparam_tuning", name)
    values = [
        value
        for file in sorted(os.listdir(folder))
        if "tfevents" in file
        for event in tf.compat.v1.train.summary_iterator(os.path.join(folder, file))
        for value in event.summary.value
    ]
    assert any(value.tag == "_hparams_/session_start_info" for value in values)
    (written,) = [value.simple_value for value in values if value.tag == METRIC_ACCURACY]
    assert abs(written - accuracy) < 1e-6
print("ok")
