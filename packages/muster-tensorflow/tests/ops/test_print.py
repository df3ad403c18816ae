"""`tf.print`, eagerly and in compiled functions."""

import io

import jax
import numpy as np

import muster_tensorflow as tf


def test_arrays_are_summarised(capsys):
    tf.print("values:", np.arange(10), {"x": np.float32(1.5)}, None, [tf.constant(2), "two"])
    assert capsys.readouterr().err == "values: [0 1 2 ... 7 8 9] {'x': 1.5} None [2, two]\n"


def test_values_look_as_in_tensorflow():
    stream = io.StringIO()
    for each in (4.0, [1e-8, 1e10, 123456789.0], [True], [[1.0, 2.5]], ["y"], "x"):
        tf.print(tf.constant(each), output_stream=stream)
    tf.print(tf.constant(1 / 3, tf.float64), tf.constant(1 / 3), tf.constant("x"), 4.0, output_stream=stream)
    tf.print(tf.constant([0.0, 1 / 7, 1.0] * 3), summarize=-1, output_stream=stream)
    assert stream.getvalue().splitlines() == [
        "4",
        "[1e-08 1e+10 123456792]",
        "[1]",
        "[[1 2.5]]",
        '["y"]',
        "x",
        '0.33333333333333331 0.333333343 "x" 4.0',
        "[0 0.142857149 1 0 0.142857149 1 0 0.142857149 1]",
    ]


def test_how_much_where_and_between_what():
    stream = io.StringIO()
    tf.print(np.arange(8), tf.Variable(3), summarize=-1, sep="|", end="!", output_stream=stream)
    tf.print(np.arange(8), summarize=1, output_stream=stream)
    assert stream.getvalue() == "[0 1 2 3 4 5 6 7]|3![0 ... 7]\n"


def test_a_compiled_function_prints_in_every_call():
    stream = io.StringIO()

    @tf.function
    def double(x):
        tf.print("got", x, output_stream=stream)
        return 2 * x

    for number in (1, 2):
        double(np.int32(number))
    jax.effects_barrier()
    assert stream.getvalue() == "got 1\ngot 2\n"


def test_each_replica_prints_its_own():
    stream = io.StringIO()
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])

    def value_fn(context):
        return np.int32(10 * context.replica_id_in_sync_group)

    values = strategy.experimental_distribute_values_from_function(value_fn)
    assert isinstance(values, tf.distribute.DistributedValues)

    @tf.function
    def show(values):
        strategy.run(lambda x: tf.print("mine:", x, output_stream=stream), args=(values,))
        tf.print("all:", values, output_stream=stream)

    show(values)
    jax.effects_barrier()
    assert sorted(stream.getvalue().splitlines()) == ["all: 0", "all: 10", "mine: 0", "mine: 10"]
    tf.print(values, output_stream=stream)
    assert stream.getvalue().endswith("PerReplica:{\n  0: 0\n  1: 10\n}\n")
