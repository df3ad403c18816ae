"""What ``strategy.run`` calls outside of a function; functions that draw from iterators around them."""

import numpy as np

import muster_tensorflow as tf


def test_code_of_one_replica_runs_on_values_where_it_needs_them():
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        w = tf.Variable(1.0)
        optimizer = tf.keras.optimizers.SGD(0.5)
    seen = []

    def step(x):
        for number in range(2):
            with tf.GradientTape() as tape:
                loss = x * w * w
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
            if loss > 0.5:
                seen.append(f"{number}: {loss:.3f}")
        return tf.distribute.get_replica_context().all_reduce("SUM", w.value)

    assert float(strategy.run(step, args=(tf.constant(0.5),))) == 0.25
    assert float(strategy.run(step, args=(tf.constant(16.0),))) == 56.25
    assert seen == ["0: 1.000", "1: 225.000"]

    made = [strategy.run(lambda: tf.keras.layers.Dense(1, kernel_initializer="ones")) for _ in range(2)]
    assert [float(layer(tf.ones((1, 3)))[0, 0]) for layer in made] == [3, 3]
    x = tf.constant([1.0, 2.0])
    for ask in (lambda: (2 * x).numpy().sum(), lambda: float(x[0] * 6), lambda: np.sum(np.asarray(x * 2))):
        assert float(strategy.run(ask)) == 6
    created = strategy.run(lambda: [tf.Variable(2.0), tf.Variable(3.0)])
    assert [float(each) for each in created] == [2, 3]


def test_a_function_draws_from_an_iterator_that_is_no_argument():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    made = []

    def dataset_fn(context):
        made.append(context.num_replicas_in_sync)
        return tf.data.Dataset.range(6).batch(1)

    iterator = iter(strategy.experimental_distribute_datasets_from_function(dataset_fn))

    @tf.function
    def total():
        both = strategy.run(lambda x: tf.reduce_sum(x), args=(next(iterator),))
        return strategy.reduce("SUM", both, axis=None)

    assert made == [2]
    assert [int(total()), int(total()), int(total())] == [1, 5, 9]
    try:
        total()
    except tf.errors.OutOfRangeError:
        return
    raise AssertionError("There is no batch left.")


def test_variables_take_tensorflows_arguments():
    v = tf.Variable([1.0, 2.0])
    v.assign([3.0, 4.0], use_locking=True, name="a", read_value=False)
    v.assign_add([1.0, 1.0], read_value=False)
    tf.function(lambda: v.assign_sub([0.5, 0.5], use_locking=True))()
    np.testing.assert_array_equal(v, [3.5, 4.5])
    assert v.device.endswith("device:CPU:0")
    assert v.dtype.base_dtype == "float32"


def test_names_of_asynchronous_code_and_of_counts():
    from muster_tensorflow.python.eager import monitoring

    with tf.experimental.async_scope():
        gauge, counter = (
            monitoring.BoolGauge("/used", "whether"),
            monitoring.Counter("/uses", "how often", "by"),
        )
        gauge.get_cell().set(True)
        counter.get_cell("me").increase_by(2)
        counter.get_cell("me").increase_by(3)
    tf.experimental.async_clear_error()
    assert (gauge.get_cell().value(), counter.get_cell("me").value(), counter.get_cell("you").value()) == (
        True,
        5,
        0,
    )
