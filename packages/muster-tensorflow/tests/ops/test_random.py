"""``tf.random``: draws from the distributions, new in every call, and repeatable."""

import contextlib
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import muster_tensorflow as tf
from muster import TraceError
from muster.data import Dataset
from muster_tensorflow.programs.v2 import _generator


def strategies():
    return [tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])]


def test_outside_of_functions_they_are_numpys():
    tf.random.set_seed(1)
    first = tf.random.uniform([1000], 2, 5), tf.random.normal([1000], 10.0, 2.0)
    assert {each.dtype for each in first} == {np.dtype(np.float32)}
    assert first[0].min() >= 2
    assert first[0].max() < 5
    assert abs(first[1].mean() - 10) < 0.3
    assert abs(first[1].std() - 2) < 0.2
    tf.random.set_seed(1)
    np.testing.assert_array_equal(tf.random.uniform([1000], 2, 5), first[0])
    numbers = tf.random.uniform([100], maxval=3, dtype=tf.int64)
    assert numbers.dtype == np.int64
    assert set(numbers.tolist()) == {0, 1, 2}


@pytest.mark.parametrize("strategy", strategies(), ids=str)
def test_in_a_function_every_call_and_every_replica_has_others(strategy):
    @tf.function
    def draw():
        return strategy.run(lambda: (tf.random.normal([4], 5.0), tf.random.uniform([4], 1, 9, tf.int32)))

    seen = [each for _ in range(3) for each in strategy.experimental_local_results(draw())]
    assert len({tuple(np.asarray(normal).tolist()) for normal, _ in seen}) == len(seen)
    assert all(1 <= number < 9 for _, numbers in seen for number in np.asarray(numbers))
    assert abs(np.mean([normal for normal, _ in seen]) - 5) < 1.5


def test_a_map_draws_for_each_element():
    noisy = Dataset.range(5).map(lambda x: tf.random.uniform([]))
    assert len(set(map(float, noisy))) == 5


def test_a_seed_makes_a_sequence_of_its_own():
    tf.random.set_seed(1)
    first = tf.random.normal([3], seed=3), tf.random.normal([3], seed=3)
    np.random.uniform()
    tf.random.set_seed(1)
    again = tf.random.normal([3], seed=3), tf.random.normal([3], seed=3)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(*first)

    @tf.function
    def draw():
        return tf.random.normal([3], seed=7), tf.random.normal([3], seed=8)

    seen = {tuple(np.asarray(each).tolist()) for _ in range(2) for each in draw()}
    assert len(seen) == 4


def test_more_distributions():
    tf.random.set_seed(2)
    logits = np.log(np.float32([[0.2, 0.8], [1.0, 0.0]]) + 1e-9)

    def draw():
        return (
            tf.random.categorical(logits, 4000),
            tf.random.gamma([4000], [2.0, 6.0], beta=2.0),
            tf.random.poisson([4000], [3.0, 5.0]),
        )

    for classes, gamma, poisson in (draw(), tf.function(draw)()):
        assert classes.shape == (2, 4000)
        assert abs(np.mean(classes[0]) - 0.8) < 0.05
        assert not np.any(classes[1])
        np.testing.assert_allclose(np.mean(gamma, 0), [1, 3], rtol=0.1)
        np.testing.assert_allclose(np.mean(poisson, 0), [3, 5], rtol=0.1)


def test_rows_are_shuffled_together():
    rows = np.arange(20).reshape(10, 2)
    for shuffled in (tf.random.shuffle(rows), tf.function(lambda: tf.random.shuffle(rows))()):
        assert all(second == first + 1 for first, second in np.asarray(shuffled))
        assert sorted(np.ravel(shuffled)) == list(range(20))


class Noise(tf.keras.layers.Layer):
    def call(self, x):
        return x + tf.random.normal((tf.shape(x)[0], 3))


class Noisy(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.noise, self.out = Noise(), tf.keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, x):
        return self.out(tf.nn.dropout(self.noise(x), 0.1))


@pytest.mark.parametrize("model", [Noisy, lambda: tf.keras.Sequential([tf.keras.Input((3,)), Noise()])])
@pytest.mark.parametrize("strategy", [None, *strategies()], ids=str)
def test_layers_draw_others_in_every_step(strategy, model):
    rows = np.zeros((8, 3), np.float32)
    with contextlib.nullcontext() if strategy is None else strategy.scope():
        made = model()
        made.compile(tf.keras.optimizers.SGD(0.0), "mse")
    losses = made.fit(rows, np.zeros((8, 1)), batch_size=8, epochs=3, verbose=0).history["loss"]
    assert len(set(losses)) == 3
    assert all(0.1 < loss < 20 for loss in losses)
    predicted = made.predict(rows, batch_size=4, verbose=0)
    assert len(np.unique(predicted)) == predicted.size
    assert len([path for path in (v.path for v in made.variables) if "seed" in path]) == 1


def test_a_model_fn_draws_others_in_every_step(tmp_path):
    def model_fn(features, labels, mode):
        weight = tf.compat.v1.get_variable("weight", shape=[], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(tf.square(tf.random.normal([5]) + 0 * weight))
        train_op = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(
            loss, tf.compat.v1.train.get_global_step()
        )
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    class Losses(tf.estimator.SessionRunHook):
        seen = []

        def before_run(self, run_context):
            return tf.estimator.SessionRunArgs("loss")

        def after_run(self, run_context, run_values):
            self.seen.append(float(run_values.results))

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(lambda: Dataset.from_tensors(np.zeros(1)).repeat(), steps=3, hooks=[Losses()])
    assert len(set(Losses.seen)) == 3


def test_stateless_numbers_follow_from_their_seed():
    for draw in (
        lambda seed: tf.random.stateless_normal([4], seed, 2.0, 3.0),
        lambda seed: tf.random.stateless_uniform([4], seed),
        lambda seed: tf.random.stateless_uniform([4], seed, 0, 1000, tf.int32),
        lambda seed: tf.random.stateless_truncated_normal([4], seed),
        lambda seed: tf.random.stateless_categorical(np.zeros((1, 90)), 4, seed)[0],
        lambda seed: tf.random.experimental.stateless_shuffle(np.arange(9), seed),
    ):
        np.testing.assert_allclose(draw([1, 2]), tf.function(draw)(np.array([1, 2])), rtol=1e-6)
        assert not np.array_equal(draw([1, 2]), draw([1, 3]))
        assert not np.array_equal(draw([1, 2]), draw(tf.random.split([1, 2])[0]))
    assert not np.array_equal(tf.random.fold_in([1, 2], 3), tf.random.fold_in([1, 2], 4))


def test_tensorflow_1_draws_classes_by_its_own_name():
    logits = np.log(np.float32([[0.2, 0.8], [1.0, 0.0]]) + 1e-9)
    drawn = tf.compat.v1.multinomial(logits, 4000, 7, output_dtype=tf.int32)
    assert (drawn.shape, drawn.dtype) == ((2, 4000), tf.int32)
    assert abs(np.mean(drawn[0]) - 0.8) < 0.05
    assert not np.any(drawn[1])
    assert tf.compat.v1.random.multinomial(logits, num_samples=1).shape == (2, 1)


@pytest.mark.parametrize("strategy", strategies(), ids=str)
def test_a_generator_keeps_its_state(strategy):
    with strategy.scope():
        generator = tf.random.Generator.from_seed(5)
    first, second = generator.normal([3]), generator.normal([3])
    assert not np.array_equal(first, second)
    generator.reset_from_seed(5)
    np.testing.assert_array_equal(generator.normal([3]), first)
    copied = tf.random.Generator.from_state(generator.state)
    np.testing.assert_array_equal(copied.normal([3]), second)
    one, two = generator.split(2)
    assert not np.array_equal(one.uniform([3]), two.uniform([3]))
    assert generator.make_seeds(4).shape == (2, 4)

    @tf.function
    def draw():
        return strategy.run(lambda: generator.uniform([3], 0, 1000, tf.int32))

    seen = [each for _ in range(3) for each in strategy.experimental_local_results(draw())]
    assert len({tuple(np.asarray(each).tolist()) for each in seen}) == len(seen)


def test_the_global_generator_can_be_replaced():
    tf.random.set_global_generator(tf.random.Generator.from_seed(1))
    expected = tf.random.Generator.from_seed(1).truncated_normal([2])
    np.testing.assert_array_equal(tf.random.get_global_generator().truncated_normal([2]), expected)


def test_what_it_cannot_do_is_said():
    with pytest.raises(ValueError, match="needs maxval"):
        tf.random.uniform([2], dtype=tf.int32)
    with pytest.raises(ValueError, match="from_seed"):
        tf.random.Generator()
    with pytest.raises(TraceError, match="SeedGenerator"):
        jax.jit(lambda: tf.random.normal([2]))()


def test_workers_that_train_in_step_have_the_same_generator(monkeypatch):
    def state():
        np.random.seed(3)  # as all workers have the chief's
        return np.asarray(tf.random.Generator.from_non_deterministic_state().state.value).tolist()

    assert state() != state()
    workers = SimpleNamespace(workers=SimpleNamespace(size=2))
    monkeypatch.setattr(_generator, "get_strategy", lambda: workers)
    assert state() == state()


def test_a_seed_counts_by_its_whole_part():
    """``tf.image.random_brightness(image, 0.5, 1.5)``, where 1.5 was meant as a bound, runs in TensorFlow."""
    image = tf.ones((2, 2, 3))
    changed = tf.function(
        lambda: (tf.image.random_brightness(image, 0.5, 1.5), tf.random.normal([2], seed=1.5))
    )
    assert [each.shape for each in changed()] == [(2, 2, 3), (2,)]
