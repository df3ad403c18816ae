"""TensorFlow 1's optimizers, and its look-ups, train rows of a table as they train it whole."""

import numpy as np
import pytest

import muster_tensorflow as tf
from divided_lookups import BATCHES, ROWS, UNITS, check, trained, variable
from muster import keras
from muster.distribute import ShardedVariable

v1 = tf.compat.v1.train
TABLE = "embedding/embeddings"
OPTIMIZERS = {
    "GradientDescent": lambda: v1.GradientDescentOptimizer(0.1),
    "Momentum": lambda: v1.MomentumOptimizer(0.1, 0.9),
    "Adagrad": lambda: v1.AdagradOptimizer(0.1),
    "Adam": lambda: v1.AdamOptimizer(0.1),
    "RMSProp": lambda: v1.RMSPropOptimizer(0.1, momentum=0.9),
    "Ftrl": lambda: v1.FtrlOptimizer(0.1),
}


def by_layer(ids):
    return keras.ops.mean(keras.layers.Embedding(ROWS, UNITS)(ids), axis=1)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_that_with_the_whole_table(name):
    """All but Adam leave rows that were not looked up."""
    program = trained(by_layer, OPTIMIZERS[name], BATCHES[0])
    check(program, [TABLE], BATCHES, leaves_others=name != "Adam")


def twice(ids):
    table = variable()
    return tf.gather(table, ids[:, 0]) * tf.nn.embedding_lookup(table, ids[:, 1:]).sum(1)


def in_shards(ids):
    shards = [variable(rows, name) for name, rows in (("first", 30), ("second", ROWS - 30))]
    return tf.nn.embedding_lookup(ShardedVariable(shards), ids).sum(1)


@pytest.mark.parametrize(("lookup", "tables"), [(twice, ["table"]), (in_shards, ["first", "second"])])
def test_operations_look_up_rows(lookup, tables):
    check(trained(lookup, OPTIMIZERS["Adam"], BATCHES[0]), tables, BATCHES[:3])


def test_a_row_that_only_passes_no_gradient_is_left_as_it_is():
    def lookup(ids):
        table = variable()
        return tf.gather(table, ids[:, 0]) + tf.stop_gradient(tf.gather(table, ids[:, 1]))

    program = trained(lookup, OPTIMIZERS["Momentum"], BATCHES[0])
    served = check(program, ["table"], BATCHES, leaves_others=True)
    batch = np.arange(18, dtype=np.int32).reshape(6, 3), BATCHES[0][1]
    new, _ = served.run(program.initial, *batch)
    changed = np.flatnonzero((np.asarray(new["table"]) != program.initial["table"]).any(1))
    assert changed.tolist() == batch[0][:, 0].tolist()
