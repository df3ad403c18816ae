"""A convolutional network of digits, whose hooks log values by the names that the model_fn gave them."""

import tempfile

import numpy as np
from sklearn.datasets import load_digits

import muster_tensorflow.compat.v1 as tf

tf.keras.utils.set_random_seed(7)

tf.logging.set_verbosity(tf.logging.INFO)

LEARNING_RATE = 1e-3
logged = []


def cnn_model_fn(features, labels, mode):
    input_layer = tf.reshape(features["x"], [-1, 8, 8, 1])
    conv1 = tf.layers.conv2d(
        inputs=input_layer, filters=8, kernel_size=[3, 3], padding="same", activation=tf.nn.relu
    )
    pool1 = tf.layers.max_pooling2d(inputs=conv1, pool_size=[2, 2], strides=2)
    pool1_flat = tf.reshape(pool1, [-1, 4 * 4 * 8])
    dense = tf.layers.dense(inputs=pool1_flat, units=32, activation=tf.nn.relu)
    dropout = tf.layers.dropout(inputs=dense, rate=0.2, training=mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.layers.dense(inputs=dropout, units=10)

    predictions = {
        "classes": tf.argmax(input=logits, axis=1),
        "probabilities": tf.nn.softmax(logits, name="softmax_tensor"),
    }
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode=mode, predictions=predictions)

    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    accuracy = tf.metrics.accuracy(labels=labels, predictions=predictions["classes"])

    if mode == tf.estimator.ModeKeys.TRAIN:
        optimizer = tf.train.AdamOptimizer(learning_rate=LEARNING_RATE)
        train_op = optimizer.minimize(loss=loss, global_step=tf.train.get_global_step())
        tf.identity(LEARNING_RATE, "learning_rate")
        tf.identity(loss, "cross_entropy")
        tf.identity(accuracy[1], name="train_accuracy")
        tf.summary.scalar("train_accuracy", accuracy[1])
        return tf.estimator.EstimatorSpec(mode=mode, loss=loss, train_op=train_op)

    eval_metric_ops = {"accuracy": tf.metrics.accuracy(labels=labels, predictions=predictions["classes"])}
    return tf.estimator.EstimatorSpec(mode=mode, loss=loss, eval_metric_ops=eval_metric_ops)


def main(unused_argv):
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    train_data, eval_data = images[:1500], images[1500:]
    train_labels, eval_labels = labels[:1500], labels[1500:]

    classifier = tf.estimator.Estimator(
        model_fn=cnn_model_fn,
        model_dir=tempfile.mkdtemp(),
        config=tf.estimator.RunConfig(tf_random_seed=7),
    )
    names = {
        "learning_rate": "learning_rate",
        "cross_entropy": "cross_entropy:0",
        "train_accuracy": "train_accuracy",
        "probabilities": "softmax_tensor",
    }

    def note(values):
        logged.append(values)
        return f"accuracy {values['train_accuracy']:.3f}"

    logging_hook = tf.train.LoggingTensorHook(tensors=names, every_n_iter=50, formatter=note)
    train_input_fn = tf.estimator.inputs.numpy_input_fn(
        x={"x": train_data}, y=train_labels, batch_size=50, num_epochs=None, shuffle=True
    )
    classifier.train(input_fn=train_input_fn, steps=300, hooks=[logging_hook])

    eval_input_fn = tf.estimator.inputs.numpy_input_fn(
        x={"x": eval_data}, y=eval_labels, num_epochs=1, shuffle=False
    )
    results = classifier.evaluate(input_fn=eval_input_fn)
    print(results)

    assert len(logged) == 6
    assert np.isclose(logged[-1]["learning_rate"], LEARNING_RATE)
    assert logged[-1]["probabilities"].shape == (50, 10)
    np.testing.assert_allclose(logged[-1]["probabilities"].sum(1), 1, rtol=1e-5)
    assert logged[-1]["cross_entropy"] < logged[0]["cross_entropy"]
    assert results["accuracy"] > 0.75
    print("ok")


if __name__ == "__main__":
    tf.app.run()
