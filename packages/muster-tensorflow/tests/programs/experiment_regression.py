"""A sine wave by recurrent cells of tf.contrib, trained by optimize_loss and an Experiment."""

import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf
from muster_tensorflow.contrib import layers, rnn
from muster_tensorflow.contrib.learn import Experiment, learn_runner

STEPS = 8


def windows(count, seed):
    start = np.random.default_rng(seed).random(count) * 6
    wave = np.sin(start[:, None] + 0.5 * np.arange(STEPS + 1)).astype(np.float32)
    return wave[:, :STEPS, None], wave[:, STEPS:]


def model_fn(features, labels, mode, params):
    cells = [rnn.LSTMBlockCell(params.units), rnn.GRUCell(params.units)]
    if mode == tf.contrib.learn.ModeKeys.TRAIN:
        cells = [rnn.DropoutWrapper(cell, input_keep_prob=0.95) for cell in cells]
    stack = rnn.MultiRNNCell(cells)
    outputs, _ = rnn.static_rnn(stack, tf.unstack(features["wave"], axis=1), dtype=tf.float32)
    with tf.contrib.framework.arg_scope(
        [layers.fully_connected], weights_regularizer=layers.l2_regularizer(1e-5), activation_fn=tf.nn.tanh
    ):
        hidden = layers.stack(outputs[-1], layers.fully_connected, [16, 8], scope="fc")
    predictions = layers.linear(hidden, 1, scope="out")
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"next": predictions})
    loss = tf.losses.huber_loss(labels, predictions) + tf.losses.get_regularization_loss()
    train_op = layers.optimize_loss(
        loss,
        tf.contrib.framework.get_global_step(),
        learning_rate=params.rate,
        optimizer="Adam",
        clip_gradients=5.0,
        learning_rate_decay_fn=lambda rate, step: tf.train.exponential_decay(rate, step, 100, 0.8),
        summaries=["learning_rate", "loss"],
    )
    metrics = {
        "rmse": tf.metrics.root_mean_squared_error(labels, predictions),
        "mse": tf.contrib.metrics.streaming_mean_squared_error(predictions, labels),
    }
    return tf.estimator.EstimatorSpec(mode, {"next": predictions}, loss, train_op, metrics)


class IteratorInitializerHook(tf.train.SessionRunHook):
    """Feeds the data to the iterator once the session is there."""

    def __init__(self):
        super(IteratorInitializerHook, self).__init__()
        self.iterator_initializer_func = None

    def after_create_session(self, session, coord):
        self.iterator_initializer_func(session)


def fed_inputs(count, seed):
    hook = IteratorInitializerHook()

    def train_inputs():
        x, y = windows(count, seed)
        with tf.name_scope("Training_data"):
            x_placeholder, y_placeholder = tf.placeholder(x.dtype, x.shape), tf.placeholder(y.dtype, y.shape)
            dataset = tf.data.Dataset.from_tensor_slices((x_placeholder, y_placeholder))
            dataset = dataset.repeat(None).shuffle(buffer_size=512).batch(32)
            iterator = dataset.make_initializable_iterator()
            next_x, next_y = iterator.get_next()
            hook.iterator_initializer_func = lambda session: session.run(
                iterator.initializer, feed_dict={x_placeholder: x, y_placeholder: y}
            )
            return {"wave": next_x}, next_y

    return train_inputs, hook


def input_fn(count, seed, epochs):
    x, y = windows(count, seed)
    dataset = tf.data.Dataset.from_tensor_slices(({"wave": x}, y)).repeat(epochs).batch(32)
    iterator = dataset.make_initializable_iterator()
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    return iterator.get_next()


def experiment_fn(run_config, hparams):
    estimator = tf.estimator.Estimator(model_fn=model_fn, params=hparams, config=run_config)
    train_input_fn, train_input_hook = fed_inputs(512, 0)
    return Experiment(
        estimator,
        train_input_fn=train_input_fn,
        train_monitors=[train_input_hook],
        eval_input_fn=lambda: input_fn(64, 1, 1),
        train_steps=200,
        eval_steps=None,
    )


def main(_):
    tf.reset_default_graph()
    hparams = tf.contrib.training.HParams(units=12, rate=0.01)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        run_config = tf.contrib.learn.RunConfig(model_dir=tempfile.mkdtemp(), save_checkpoints_steps=100)
        results = learn_runner.run(
            experiment_fn, run_config=run_config, schedule="train_and_evaluate", hparams=hparams
        )
    metrics = results[0] if isinstance(results, tuple) else results
    print(metrics)
    assert metrics["rmse"] < 0.2
    assert np.isclose(metrics["rmse"] ** 2, metrics["mse"], rtol=1e-4)
    print("ok")


if __name__ == "__main__":
    tf.app.run(main)
