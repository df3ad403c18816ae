"""The shards of a layer's variables that a partitioner divides, as TensorFlow 2.15.1 lists them."""

import jax.numpy as jnp
import numpy as np
import pytest
from memory_store import with_memory

import muster_tensorflow as tf
from muster import GradientError
from muster._keras import keras
from muster.distribute import FixedShardsPartitioner
from muster.extend import together, whole_arrays

ROWS = np.arange(20, dtype="float32").reshape(5, 4) / 10


def made(partitioner=FixedShardsPartitioner(2)):  # noqa: B008  # frozen
    strategy, store = with_memory(2, partitioner)
    with strategy.scope():
        ids = tf.keras.layers.Input((3,), dtype="int32")
        table = tf.keras.layers.Embedding(
            5, 4, name="emb", embeddings_regularizer=tf.keras.regularizers.L2(0.01)
        )
        mean = tf.keras.layers.GlobalAveragePooling1D()(table(ids))
        model = tf.keras.Model(ids, tf.keras.layers.Dense(1, name="dense")(mean))
    return model, table, store


def test_a_layer_lists_a_shard_for_each_server():
    model, table, store = made()
    assert [w.name for w in table.weights] == ["emb/embeddings/part_0:0", "emb/embeddings/part_1:0"]
    assert [w.shape for w in table.weights] == [(3, 4), (2, 4)]
    assert [w.device for w in table.weights] == [f"/job:ps/replica:0/task:{i}/device:CPU:0" for i in (0, 1)]
    assert all(isinstance(w, tf.Variable | keras.Variable) and w.trainable for w in table.weights)
    names = [w.name for w in model.trainable_variables]
    assert names[2:] == ["dense/kernel/part_0:0", "dense/kernel/part_1:0", "dense/bias:0"]
    assert [*map(len, (model.variables, model.weights, model.non_trainable_variables))] == [5, 5, 0]
    assert model.count_params() == 25
    assert table.weights[0] is model.weights[0]


def test_what_no_partitioner_divides_is_one_variable():
    model, table, _ = made(None)
    assert [w.name for w in model.weights] == ["emb/embeddings:0", "dense/kernel:0", "dense/bias:0"]


def test_modules_list_shards_too():
    strategy, _ = with_memory(2, FixedShardsPartitioner(2))
    with strategy.scope():
        module = tf.Module()
        module.table = tf.Variable(ROWS, name="table")
        module.layer = tf.keras.layers.Embedding(6, 2, name="emb")
        module.layer.build(None)
    names = ["emb/embeddings/part_0:0", "emb/embeddings/part_1:0", "table/part_0:0", "table/part_1:0"]
    assert [v.name for v in module.variables] == names
    assert [v.name for v in module.trainable_variables] == names
    assert module.non_trainable_variables == ()


def test_a_shard_is_read_and_assigned_alone():
    _, table, store = made()
    table.embeddings.assign(ROWS)
    store.asked.clear()
    first, second = table.weights
    assert second.numpy().tolist() == ROWS[3:].tolist()
    second.assign(np.zeros((2, 4)))
    assert store.asked == ["read", "assign"]
    assert store.largest <= 80
    with together([table.embeddings]):
        table.embeddings.assign(ROWS)
        first.assign_add(tf.ones((3, 4)))
        assert first.numpy().tolist() == (ROWS[:3] + 1).tolist()
        second.assign(np.zeros((2, 4)))
    np.testing.assert_allclose(np.asarray(table.embeddings), [*(ROWS[:3] + 1), *np.zeros((2, 4))])
    with pytest.raises(ValueError, match=r"emb/embeddings/part_0 has shape \(3, 4\), got a value of shape"):
        first.assign(np.zeros((5, 4)))
    first.trainable = False
    assert table.trainable_weights == []


def trained(model, change, eager, whole):
    """Return the weights after two steps of a loop of the program's own."""
    for each, scale in zip(model._layers[1:], (1, 0.5, 0.1), strict=False):
        for weight in each.weights:
            weight.assign(scale * np.ones(weight.shape))
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)

    def step():
        variables = [w for layer in model.layers for w in layer._trainable_variables]
        variables = variables if whole else model.trainable_variables
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(np.array([[0, 1, 4], [4, 4, 2]])) - 1.0) ** 2)
            loss += tf.add_n(model.losses)
        optimizer.apply_gradients(zip(change(tape.gradient(loss, variables)), variables, strict=True))

    step = step if eager else tf.function(step)
    step()
    step()
    return [np.asarray(each) for layer in model.layers for each in layer._trainable_variables]


CHANGES = {
    "as they are": lambda grads: grads,
    "clipped": lambda grads: tf.clip_by_global_norm([*map(tf.convert_to_tensor, grads)], 0.05)[0],
    "scaled": lambda grads: [grad * 0.5 for grad in grads],
}


@pytest.mark.parametrize(("change", "eager"), [(name, False) for name in CHANGES] + [("clipped", True)])
def test_shards_are_trained_as_the_whole_is(change, eager):
    found, expected = (trained(made()[0], CHANGES[change], eager, whole) for whole in (False, True))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_an_optimizer_has_slots_for_the_whole():
    model, _, _ = made()
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    optimizer.apply_gradients([(tf.ones_like(w), w) for w in model.trainable_variables])
    assert [v.shape for v in optimizer.variables][2:] == [s for n in ((5, 4), (4, 1), (1,)) for s in (n, n)]


def test_the_gradient_of_a_table_stays_what_it_is():
    """Passes find the rows that were looked up in the gradient itself, and not in parts put together."""
    model, table, _ = made()
    seen = []

    class Noting(tf.keras.optimizers.SGD):
        def update_step(self, gradient, variable, learning_rate):
            seen.append((variable, gradient))
            super().update_step(gradient, variable, learning_rate)

    optimizer = Noting(0.1)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(table(np.array([1, 4])))
        gradients = tape.gradient(loss, table.trainable_weights)
        clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
        ((_, places),) = whole_arrays(clipped)
        assert [shard for _, shard in places] == table.weights
        optimizer.apply_gradients(zip(clipped, table.trainable_weights, strict=True))
        return gradients

    gradients = step()
    assert [g.shape for g in gradients] == [(3, 4), (2, 4)]
    assert jnp.concatenate(gradients).sum() == 8
    assert seen[0][0] is table.embeddings
    assert seen[0][1].shape == (5, 4)


def test_the_gradients_of_all_shards_are_needed():
    model, table, _ = made()
    with pytest.raises(
        GradientError, match=r"is trained as one. Got gradients of \['emb/embeddings/part_1'\]"
    ):
        tf.keras.optimizers.SGD().apply_gradients([(tf.ones((2, 4)), table.weights[1])])


def test_checkpoints_and_files_have_the_whole(tmp_path):
    model, table, _ = made()
    table.embeddings.assign(ROWS)
    path = tf.train.Checkpoint(model=model).save(tmp_path / "ckpt")
    assert ("model/emb/embeddings", [5, 4]) in tf.train.list_variables(path)
    model.save_weights(tmp_path / "a.weights.h5")
    other, table, _ = made(None)
    other.load_weights(tmp_path / "a.weights.h5")
    assert table.embeddings.numpy().tolist() == ROWS.tolist()
    table.embeddings.assign(ROWS * 0)
    other, table, _ = made(FixedShardsPartitioner(1))
    tf.train.Checkpoint(model=other).restore(path)
    assert table.embeddings.numpy().tolist() == ROWS.tolist()
