"""Python's ``if`` on a tensor in functions that a step calls, and in schedules."""

import numpy as np
import pytest

import muster_tensorflow as tf
from muster_tensorflow import keras


@tf.function
def rate(epoch):
    if epoch < 3:
        lr = 0.1 * epoch
    elif epoch < 5:
        lr = 0.5
    else:
        lr = 0.5 * 0.5 ** (tf.cast(epoch, tf.float32) - 4.0)
    return lr


RATES = [0.0, 0.1, 0.2, 0.5, 0.5, 0.25, 0.125]


def run_by(strategy, of):
    """What replicas compute of numbers, in a compiled function."""
    run = tf.function(lambda x: strategy.run(of, args=(x,)))
    return [np.asarray(strategy.experimental_local_results(run(tf.constant(x)))).tolist() for x in range(7)]


@pytest.mark.parametrize("devices", [1, 2])
def test_a_function_that_replicas_call_takes_one_way(devices):
    strategy = tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(devices)])
    np.testing.assert_allclose(
        run_by(strategy, rate), np.repeat(np.asarray(RATES)[:, None], devices, 1), rtol=1e-6
    )


def test_a_function_that_calls_it_stays_compiled(caplog):
    outer = tf.function(lambda x: 2 * rate(x))
    np.testing.assert_allclose([outer(tf.constant(x)) for x in range(7)], 2 * np.asarray(RATES), rtol=1e-6)
    assert not outer.has_run_uncompiled
    assert not caplog.records


def test_gradients_are_those_of_the_way_that_is_taken():
    @tf.function
    def root(x):
        return tf.sqrt(x) if x > 0.0 else 3.0 * x

    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = root(x)
        return tape.gradient(y, x)

    assert [float(slope(tf.constant(x))) for x in (4.0, 0.0)] == [0.25, 3.0]


@pytest.mark.parametrize("way", ["fit", "run"])
def test_schedules_branch_on_the_step(way):
    class Schedule(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            if step < 2:
                return 1.0
            return 0.25

    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")]
        )
        optimizer = keras.optimizers.SGD(Schedule())
    x = np.ones((2, 1), np.float32)
    if way == "fit":
        model.compile(optimizer, loss=lambda _, y: -y)
        model.fit(x, x, batch_size=2, epochs=4, verbose=0)
    else:

        def step(x):
            with tf.GradientTape() as tape:
                loss = -tf.reduce_sum(model(x)) / 2
            optimizer.apply_gradients(
                zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
            )

        run = tf.function(lambda x: strategy.run(step, args=(x,)))
        for batch in strategy.experimental_distribute_dataset(
            tf.data.Dataset.from_tensor_slices(x).batch(2).repeat(4)
        ):
            run(batch)
    np.testing.assert_allclose(model.get_weights()[0], [[2.5]])


def test_what_assigns_or_goes_on_is_rewritten():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        count = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

    @tf.function
    def counted(x):
        count.assign_add(1.0)
        return x if x > 2 else -x

    @tf.function
    def halved(x):
        while x > 1:
            x = x // 2
        return x

    assert [each[0] for each in run_by(strategy, counted)] == [0, -1, -2, 3, 4, 5, 6]
    assert float(count) == 14
    assert [each[1] for each in run_by(strategy, halved)] == [0, 1, 1, 1, 1, 1, 1]
