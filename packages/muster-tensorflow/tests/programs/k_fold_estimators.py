"""Several Estimators in one process: k folds, each with a folder, early stopping, and an average of predictions."""

import os
import shutil
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

tf.logging.set_verbosity(tf.logging.ERROR)
tf.set_random_seed(11)

K, N, FEATURES = 3, 240, 6


def dataset():
    rng = np.random.RandomState(4)
    x = rng.normal(size=(N, FEATURES)).astype(np.float32)
    target = x[:, 0] * 2 + np.sin(3 * x[:, 1]) - x[:, 2] * x[:, 3]
    return x, (target > 0).astype(np.int32)


def folds(count, k, seed=0):
    order = np.random.RandomState(seed).permutation(count)
    for held in np.array_split(order, k):
        yield np.setdiff1d(order, held), held


def model_fn(features, labels, mode, params):
    net = features["x"]
    for i, units in enumerate(params["hidden_units"]):
        net = tf.layers.dense(
            net,
            units,
            activation=None,
            name="fc%d" % i,
            kernel_initializer=tf.glorot_uniform_initializer(seed=params["seed"]),
            kernel_regularizer=tf.keras.regularizers.l2(params["l2"]),
        )
        net = tf.layers.batch_normalization(net, training=mode == tf.estimator.ModeKeys.TRAIN)
        net = tf.nn.relu(net)
        net = tf.layers.dropout(net, params["dropout"], training=mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.layers.dense(net, 2, name="logits")
    probabilities = tf.nn.softmax(logits)
    predictions = {"classes": tf.argmax(logits, 1), "probabilities": probabilities}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    loss += tf.losses.get_regularization_loss()
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {
            "accuracy": tf.metrics.accuracy(labels, predictions["classes"]),
            "auc": tf.metrics.auc(labels, probabilities[:, 1]),
            "mean_per_class": tf.metrics.mean_per_class_accuracy(labels, predictions["classes"], 2),
        }
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(params["learning_rate"], step, 50, 0.9, staircase=True)
    optimizer = tf.train.AdamOptimizer(rate)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        gradients, norm = tf.clip_by_global_norm(gradients, 5.0)
        train_op = optimizer.apply_gradients(zip(gradients, variables), global_step=step)
    hook = tf.train.LoggingTensorHook({"norm": norm, "rate": rate}, every_n_iter=50)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])


x, y = dataset()
x_test, y_test = x[:60], y[:60]
x, y = x[60:], y[60:]
root = tempfile.mkdtemp()
params = dict(hidden_units=[16, 8], dropout=0.1, l2=1e-4, learning_rate=0.01, seed=3)
scores, votes, estimators = [], [], []
for fold, (train, held) in enumerate(folds(len(x), K)):
    tf.reset_default_graph()
    model_dir = os.path.join(root, "fold_%d" % fold)
    shutil.rmtree(model_dir, ignore_errors=True)
    config = tf.estimator.RunConfig(
        model_dir=model_dir,
        tf_random_seed=fold,
        save_checkpoints_steps=40,
        keep_checkpoint_max=2,
        session_config=tf.ConfigProto(gpu_options=tf.GPUOptions(allow_growth=True)),
    )
    estimator = tf.estimator.Estimator(model_fn, config=config, params=params)
    train_input_fn = tf.estimator.inputs.numpy_input_fn(
        {"x": x[train]}, y[train], batch_size=20, num_epochs=None, shuffle=True
    )
    eval_input_fn = tf.estimator.inputs.numpy_input_fn(
        {"x": x[held]}, y[held], batch_size=20, num_epochs=1, shuffle=False
    )
    early = tf.estimator.experimental.stop_if_no_decrease_hook(
        estimator, metric_name="loss", max_steps_without_decrease=120, run_every_secs=None, run_every_steps=40
    )
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(train_input_fn, max_steps=160, hooks=[early]),
        tf.estimator.EvalSpec(eval_input_fn, steps=None, throttle_secs=0),
    )
    scores.append(estimator.evaluate(eval_input_fn))
    estimators.append(estimator)
    print("fold", fold, {k: round(float(v), 3) for k, v in sorted(scores[-1].items())}, flush=True)

test_input_fn = tf.estimator.inputs.numpy_input_fn({"x": x_test}, batch_size=7, shuffle=False)
for estimator in estimators:  # all are still there
    votes.append(np.array([p["probabilities"] for p in estimator.predict(test_input_fn)]))
    assert int(estimator.get_variable_value("global_step")) == 160
mean = np.mean(votes, axis=0)
accuracy = np.mean(np.argmax(mean, 1) == y_test)
print("ensemble", accuracy, sorted(estimators[0].get_variable_names())[:4])
assert accuracy > 0.75
best = estimators[int(np.argmax([s["accuracy"] for s in scores]))]
print("best", os.path.basename(best.model_dir), best.latest_checkpoint().endswith("160"))
# One fold trained further, by another object of the same folder.
again = tf.estimator.Estimator(model_fn, best.model_dir, params=dict(params, learning_rate=1e-3))
again.train(tf.estimator.inputs.numpy_input_fn({"x": x}, y, batch_size=20, shuffle=True, num_epochs=2))
print("step", again.get_variable_value("global_step"))
print("ok")
