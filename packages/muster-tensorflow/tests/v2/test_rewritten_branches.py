"""Python's ``if`` and ``while`` on tensors in the code of replicas, with assignments in their ways."""

import argparse

import jax
import numpy as np
import pytest

import muster_tensorflow as tf
from muster_tensorflow import keras


@pytest.fixture(params=[1, 2])
def strategy(request):
    return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(request.param)])


def locals_of(strategy, values):
    return [np.asarray(each).tolist() for each in strategy.experimental_local_results(values)]


def test_ways_set_locals_and_variables(strategy):
    with strategy.scope():
        steps = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        large = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)
        last = keras.metrics.Mean()

    def step(x):
        kind, scale = "small", 1.0
        if steps % 2 == 0 and x > 1.0:
            y = x * 2
            scale = 3
            large.assign_add(1.0)
            last.update_state(y)
        elif not (x > 2.0 or x < 0.0):
            y = x + 10.0
        else:
            y = -x
        steps.assign_add(1)
        return y * scale, 1.0 if 0.0 < x < 2.0 else 0.0, kind

    run = tf.function(lambda x: strategy.run(step, args=(x,)))
    many = strategy.num_replicas_in_sync
    found = [run(tf.constant(x)) for x in (4.0, 4.0, 0.5, 1.5)]
    assert [locals_of(strategy, each[0]) for each in found] == [[y] * many for y in (24, -4, 10.5, 11.5)]
    assert [locals_of(strategy, each[1])[0] for each in found] == [0, 0, 1, 1]
    assert found[0][2] == "small"
    assert (int(steps), float(large), float(last.result())) == (4, many, 8)


def test_what_follows_a_return_is_the_other_way(strategy):
    def sign(x):
        if x > 0:
            return 1.0, x
        x = x - 1
        if x < -3:
            return -2.0, x
        return -1.0, x

    found = [strategy.run(sign, args=(tf.constant(x),)) for x in (2.0, -1.0, -3.0)]
    assert [locals_of(strategy, sign)[0] for sign, _ in found] == [1, -1, -2]
    assert [locals_of(strategy, x)[0] for _, x in found] == [2, -2, -4]


def test_loops_go_on_while_a_tensor_says_so(strategy):
    with strategy.scope():
        rounds = tf.Variable(0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

    def halved(x):
        count = 0
        while x > 1.0 and count < 10:
            half = x / 2
            x = half
            count += 1
            rounds.assign_add(1)
        return x, count

    x, count = strategy.run(halved, args=(tf.constant(20.0),))
    assert (locals_of(strategy, x)[0], locals_of(strategy, count)[0], int(rounds)) == (0.625, 5, 5)


def test_every_second_step_is_applied(strategy):
    with strategy.scope():
        weight = tf.Variable(1.0)
        sums = tf.Variable(0.0, trainable=False, aggregation=tf.VariableAggregation.SUM)
        optimizer = keras.optimizers.SGD(0.5)
        count = tf.Variable(0, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

    class Trainer:
        def step(self, x):
            state = argparse.Namespace(applied=0.0)
            with tf.GradientTape() as tape:
                loss = weight * x
                if loss > 100.0:
                    loss = 0.0 * loss
            (grad,) = tape.gradient(loss, [weight])
            sums.assign(grad / strategy.num_replicas_in_sync)
            count.assign_add(1)
            if count % 2 == 0:
                optimizer.apply_gradients([(sums.value, weight)])
                state.applied = 1.0
            return loss, state.applied

    trainer = Trainer()
    run = tf.function(lambda x: strategy.run(trainer.step, args=(x,)))
    found = [run(tf.constant(x)) for x in (2.0, 3.0, 1000.0, 4.0)]
    assert [locals_of(strategy, applied)[0] for _, applied in found] == [0, 1, 0, 1]
    many = strategy.num_replicas_in_sync
    assert float(weight) == 1 - 0.5 * (3 + 4) * many
    assert int(optimizer.iterations) == 2


def test_replicas_go_different_ways():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        weight = tf.Variable(2.0)
        total = tf.Variable(0.0, trainable=False, aggregation=tf.VariableAggregation.SUM)

    def step(x):
        with tf.GradientTape() as tape:
            loss = weight * x
            if loss > 5.0:
                loss = loss * 10
                total.assign_add(x)
        (grad,) = tape.gradient(loss, [weight])
        context = tf.distribute.get_replica_context()
        if grad > 15.0:
            grad = context.all_reduce(tf.distribute.ReduceOp.SUM, grad)
        return loss, grad

    values = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant([1.0, 3.0][context.replica_id_in_sync_group])
    )
    loss, grad = tf.function(lambda x: strategy.run(step, args=(x,)))(values)
    assert locals_of(strategy, loss) == [2, 60]
    assert locals_of(strategy, grad) == [1, 31]
    assert float(total) == 3


def test_a_model_branches_in_fit():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")

        def call(self, x):
            y = self.dense(x)
            if tf.reduce_mean(y) > 1.0:
                y = y * 0.0
            return y

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(self(x, training=True) - y)
            grads = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(grads, self.trainable_variables, strict=True))
            return {"loss": loss}

    model = Model()
    model.compile(keras.optimizers.SGD(0.25))
    x = np.full((2, 1), 1.0, np.float32)
    history = model.fit(x, 0 * x, epochs=2, batch_size=2, verbose=0)
    np.testing.assert_allclose(history.history["loss"], [1.0, 0.75])


def test_what_cannot_be_rewritten_fails_as_before():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])

    def step(x):
        for _ in range(2):
            if x > 1:
                break
            x = x + 1
        return x

    with pytest.raises(jax.errors.TracerBoolConversionError):
        strategy.run(step, args=(tf.constant(0),))


def test_layers_branch_in_models():
    class Gate(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.seen = self.add_weight(name="seen", shape=(), initializer="zeros", trainable=False)

        def call(self, x):
            if tf.reduce_mean(x) > 0.5:
                self.seen.assign_add(1.0)
                return x * 2
            return x

    model = keras.Sequential([keras.Input((2,)), Gate()])
    model.compile("sgd", "mse")
    ones = np.ones((8, 2), np.float32)
    model.fit(ones, ones, batch_size=4, verbose=0)
    assert float(model.layers[0].seen) == 2
    assert model.predict(ones[:1], verbose=0).tolist() == [[2, 2]]
    assert model(0 * ones[:1]).numpy().tolist() == [[0, 0]]


def test_a_function_that_each_call_makes_anew_stays_compiled(strategy, caplog):
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
        optimizer = keras.optimizers.Adam(0.5)

    @tf.function
    def train(x):
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(x))
            grads = tape.gradient(loss, model.trainable_variables)
            if tf.linalg.global_norm(grads) > 1.0:
                grads = [grad / 100.0 for grad in grads]
            if tf.math.is_finite(loss):
                optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            return loss

        return strategy.run(step, args=(x,))

    for x in (1.0, np.inf):
        train(tf.constant([[x, 1.0]]))
    np.testing.assert_allclose(model.get_weights()[0], [[0.5], [0.5]], atol=1e-3)
    assert int(optimizer.iterations) == 1
    assert not caplog.records


@pytest.mark.parametrize("made", [lambda function: function, tf.function])
@pytest.mark.parametrize("output_shape", [None, ()])
def test_the_function_of_a_lambda_layer_may_branch(made, output_shape):
    def halvings(x):
        number = tf.zeros_like(x[:, 0])
        while tf.reduce_sum(x) > 1.0:
            x = x / 2.0
            number += 1.0
        return number

    model = keras.Sequential([keras.layers.Lambda(made(halvings), output_shape=output_shape)])
    assert model.predict(np.ones((3, 2), np.float32), verbose=0).tolist() == [3.0] * 3
