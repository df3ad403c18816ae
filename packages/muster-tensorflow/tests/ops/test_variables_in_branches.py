"""Functions of ``tf.cond`` and of loops that assign to variables and draw random numbers, when compiled."""

import numpy as np
import pytest

import muster_tensorflow as tf


def test_a_function_of_cond_assigns_to_variables_if_it_is_taken():
    number, rows = tf.Variable(0.0), tf.Variable([0.0, 0.0])

    @tf.function
    def step(which):
        seen = tf.cond(which, lambda: number.assign_add(1.0), lambda: number)
        tf.cond(which, lambda: tf.group(rows.assign(rows * 2.0 + 1.0)), lambda: tf.no_op())
        tf.cond(which, lambda: None, lambda: None)
        return seen + rows

    assert step(tf.constant(True)).numpy().tolist() == [2.0, 2.0]
    assert step(tf.constant(False)).numpy().tolist() == [2.0, 2.0]
    assert step(tf.constant(True)).numpy().tolist() == [5.0, 5.0]
    assert (number.numpy(), rows.numpy().tolist()) == (2.0, [3.0, 3.0])


def test_gradients_go_through_the_function_that_is_taken():
    x = tf.Variable(2.0)

    @tf.function
    def slope(which):
        with tf.GradientTape() as tape:
            y = tf.cond(which, lambda: x * x * x, lambda: x * 3.0)
        return tape.gradient(y, x)

    assert [float(slope(tf.constant(each))) for each in (True, False)] == [12.0, 3.0]


def test_each_round_of_a_loop_finds_what_the_one_before_assigned():
    total = tf.Variable(1)

    @tf.function
    def doubled(times):
        def body(i, seen):
            return i + 1, seen + total.assign(total * 2)

        return tf.while_loop(lambda i, _: i < times, body, [0, 0])[1]

    assert (int(doubled(tf.constant(3))), int(total)) == (2 + 4 + 8, 8)
    assert (int(doubled(tf.constant(0))), int(total)) == (0, 8)


@pytest.mark.parametrize("reverse", [False, True])
def test_each_element_finds_what_the_one_before_assigned(reverse):
    total = tf.Variable(0.0)

    def scanned(x):
        return tf.scan(lambda before, each: total.assign_add(each) + 0 * before, x, 0.0, reverse=reverse)

    for function in (scanned, tf.function(scanned)):
        total.assign(0.0)
        found = function(tf.constant([1.0, 2.0, 3.0])).numpy().tolist()
        assert found == ([6.0, 5.0, 3.0] if reverse else [1.0, 3.0, 6.0])
        assert float(total) == 6.0
    added = tf.function(lambda x: tf.map_fn(lambda each: total.assign_add(each) * 1.0, x))
    assert added(tf.constant([1.0, 1.0])).numpy().tolist() == [7.0, 8.0]
    assert float(total) == 8.0


def test_the_function_of_a_number_assigns():
    chosen = tf.Variable(0)

    @tf.function
    def pick(number):
        tf.switch_case(number, {2: lambda: chosen.assign(20), 5: lambda: chosen.assign(50)})
        return chosen + 0

    assert [int(pick(tf.constant(each))) for each in (2, 5, 3)] == [20, 50, 50]


def test_functions_and_loops_draw_other_numbers_each_time():
    @tf.function
    def draw(which, times):
        chosen = tf.cond(which, lambda: tf.random.uniform([]), lambda: tf.constant(-1.0))
        drawn = tf.map_fn(lambda _: tf.random.uniform([]), tf.zeros(times))
        summed = tf.while_loop(
            lambda i, _: i < times, lambda i, s: (i + 1, s + tf.random.uniform([])), [0, 0.0]
        )[1]
        return tf.concat([[chosen, summed], drawn], 0)

    numbers = np.concatenate([draw(tf.constant(True), 4).numpy() for _ in range(2)])
    assert len(set(numbers.tolist())) == len(numbers)
    assert float(draw(tf.constant(False), 4)[0]) == -1.0


class Accumulating(tf.keras.Model):
    """Applies the sum of the gradients of two steps."""

    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        self.dense.build((None, 2))
        self.built = True
        self.steps = tf.Variable(0, trainable=False, dtype=tf.int32)
        self.sums = [tf.Variable(tf.zeros(each.shape), trainable=False) for each in self.trainable_variables]

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        self.steps.assign_add(1)
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
        for total, gradient in zip(self.sums, tape.gradient(loss, self.trainable_variables), strict=True):
            total.assign_add(gradient)
        tf.cond(tf.equal(self.steps, 2), self.apply, lambda: None)
        return {"loss": loss}

    def apply(self):
        self.optimizer.apply_gradients(zip(self.sums, self.trainable_variables, strict=True))
        self.steps.assign(0)
        for total in self.sums:
            total.assign(tf.zeros_like(total))


def test_a_step_of_fit_applies_gradients_every_other_time():
    x = np.random.default_rng(0).normal(size=(12, 2)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    model = Accumulating()
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1))
    model.fit(x, y, batch_size=2, shuffle=False, verbose=0)
    wanted = np.zeros((2, 1), "float32")
    for start in range(0, 12, 4):
        parts = [slice(start, start + 2), slice(start + 2, start + 4)]
        wanted -= 0.1 * sum(x[each].T @ (x[each] @ wanted - y[each]) for each in parts)
    np.testing.assert_allclose(model.dense.kernel.numpy(), wanted, rtol=1e-5)
    assert int(model.optimizer.iterations) == 3


def test_each_value_of_a_vectorized_map_has_its_own_random_numbers():
    dropout = tf.keras.layers.Dropout(0.5)

    assert len(set(tf.scan(lambda _, x: x + tf.random.uniform([]), tf.zeros(6)).numpy().tolist())) > 2

    def noisy(x):
        return x + tf.random.uniform([]), tf.reduce_sum(dropout(tf.ones(64), training=True))

    def called(x):
        return tf.vectorized_map(noisy, x)

    for function in (called, tf.function(called)):
        for found in function(tf.zeros(6)):
            assert len(set(np.asarray(found).tolist())) > 2


@pytest.mark.parametrize("workers", [1, 2])
def test_an_optimizer_of_a_model_fn_takes_its_steps_on_one_way_only(tmp_path, workers):
    def model_fn(features, labels, mode):
        step = tf.compat.v1.train.get_or_create_global_step()
        loss = tf.reduce_mean(tf.square(tf.compat.v1.layers.dense(features, 1, name="dense") - labels))
        variables = tf.compat.v1.trainable_variables()
        sums = [
            tf.compat.v1.get_variable(
                f"sum_{i}", each.shape, initializer=tf.zeros_initializer(), trainable=False
            )
            for i, each in enumerate(variables)
        ]
        adam = tf.compat.v1.train.AdamOptimizer(0.1)
        gradients = tf.gradients(loss, variables)

        def apply():
            made = adam.apply_gradients(zip([s / 4 for s in sums], variables, strict=True))
            with tf.control_dependencies([made]):
                return tf.group([each.assign(g) for each, g in zip(sums, gradients, strict=True)])

        def add():
            return tf.group([each.assign_add(g) for each, g in zip(sums, gradients, strict=True)])

        train_op = tf.cond(tf.equal((step + 1) % 4, 0), apply, add)
        train_op = tf.group(train_op, tf.compat.v1.assign_add(step, 1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn():
        x = np.arange(16, dtype=np.float32).reshape(8, 2) / 16
        return tf.data.Dataset.from_tensors((x, x.sum(1, keepdims=True))).repeat()

    strategy = tf.distribute.MirroredStrategy([f"cpu:{i}" for i in range(workers)]) if workers > 1 else None
    config = tf.estimator.RunConfig(tf_random_seed=1, train_distribute=strategy)
    estimator = tf.estimator.Estimator(model_fn, tmp_path, config)
    values = []
    for steps in (3, 4, 8, 40):
        estimator.train(input_fn, max_steps=steps)
        values.append([estimator.get_variable_value(f"dense/{name}") for name in ("kernel", "bias")])
    names = estimator.get_variable_names()
    assert {"sum_0", "sum_1"} <= set(names)
    assert any("Adam" in each and "kernel" in each for each in names)
    first, second, third, last = (np.concatenate([kernel.ravel(), bias]) for kernel, bias in values)
    np.testing.assert_allclose(np.abs(second - first), 0.1, rtol=1e-3)  # the first step of Adam
    assert np.all(np.abs(third - second) < 0.2)
    assert np.any(third != second)
    assert np.all(last != third)
