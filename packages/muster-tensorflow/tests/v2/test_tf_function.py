"""``tf.function`` of code that branches on tensors."""

import functools
import logging

import jax
import numpy as np
import pytest

import muster
import muster_tensorflow as tf
from muster import keras
from muster_tensorflow.programs.v2.data._dataset_loops import DatasetLoopError


def test_code_without_branches_is_compiled(caplog):
    seen = []

    @tf.function
    def double(x):
        seen.append(x)
        return x + x

    assert [float(double(1.0)), float(double(1.0))] == [2, 2]
    assert all(isinstance(x, jax.core.Tracer | float) for x in seen)
    assert not caplog.records


def test_a_branch_on_a_tensor_runs_on_values(caplog):
    @tf.function
    def relu(x):
        if tf.greater(x, 0):
            return x
        return tf.zeros_like(x)

    with caplog.at_level(logging.WARNING, "muster"):
        assert [float(relu(tf.constant(x))) for x in (3.0, -3.0, 4.0)] == [3, 0, 4]
    (record,) = caplog.records
    assert "relu runs uncompiled" in record.message
    assert "`if tf.greater(x, 0):`" in record.message
    assert __file__ in record.message


def test_loops_on_tensors_run_on_values():
    @tf.function
    def halve(x, times):
        for _ in range(times):
            x = x / 2
        while tf.reduce_max(x) > 1:
            x = x - 1
        return x

    assert float(halve(tf.constant(20.0), tf.constant(2))) == 1


def test_functions_that_it_calls_stay_compiled():
    inner_calls = []

    @tf.function
    def inner(x):
        inner_calls.append(isinstance(x, jax.core.Tracer))
        return x * 2

    @tf.function
    def outer(x):
        return inner(x) if tf.reduce_sum(x) > 0 else x

    for _ in range(3):
        assert float(outer(tf.constant(2.0))) == 4
    assert all(inner_calls)


def test_a_training_step_that_branches_trains():
    model = keras.Sequential([keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    x = np.arange(8, dtype=np.float32).reshape(8, 1) / 8

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        if loss > 0.0:
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    losses = [float(step(x, 3 * x)) for _ in range(20)]
    assert losses[-1] < losses[0] / 2
    assert int(optimizer.iterations) == 20


def test_the_library_s_function_says_what_to_do():
    @muster.function
    def relu(x):
        return x if x > 0 else 0 * x

    with pytest.raises(jax.errors.TracerBoolConversionError):
        relu(jax.numpy.ones(()))


def test_numbers_that_it_returns_are_tensors():
    @tf.function
    def sign(x):
        if x > 0:
            return 1
        return -1

    assert [sign(tf.constant(x)).numpy() for x in (3.0, -3.0)] == [1, -1]


def test_arguments_must_fit_the_signature():
    class Collatz:
        @tf.function(input_signature=(tf.TensorSpec(shape=[None], dtype=tf.int32),))
        def next(self, x):
            return tf.where(x % 2 == 0, x // 2, 3 * x + 1)

    assert Collatz().next(tf.constant([1, 2])).numpy().tolist() == [4, 1]
    assert Collatz().next.get_concrete_function()(tf.constant([2])).numpy().tolist() == [1]
    with pytest.raises(TypeError, match=r"input_signature.*got the shape \(2, 2\)"):
        Collatz().next(tf.constant([[1, 2], [3, 4]]))


def test_arguments_with_defaults_may_be_left_out_of_a_method():
    class Tiles:
        @tf.function(input_signature=(tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.int32)))
        def __call__(self, image, size=2):
            return image * size

    assert Tiles()(tf.constant([1.0, 2.0])).numpy().tolist() == [2, 4]
    with pytest.raises(TypeError, match="Argument 0 must fit"):
        Tiles()(tf.constant([[1.0]]))


def test_functions_of_python_are_called_each_time():
    seen = []

    @tf.function
    def note(x):
        tf.py_function(seen.append, inp=[x], Tout=[])

    note(1)
    note(1)
    note(2)
    assert [each.numpy() for each in seen] == [1, 1, 2]


def test_constants_of_a_function_have_tensorflows_methods():
    @tf.function
    def pad(x):
        zeros = tf.concat([tf.zeros([1, 2]), tf.ones([1, 2])], axis=0)
        zeros.set_shape([2, 2])
        assert zeros.get_shape().as_list() == [2, 2]
        return x + zeros

    assert pad(tf.ones([2])).numpy().tolist() == [[1, 1], [2, 2]]


def test_functions_of_python_run_on_values():
    @tf.numpy_function(Tout=[tf.float32, tf.int32])
    def step(action):
        return np.float32(action * 0.5), np.int32(action)

    @tf.function
    def play(action):
        state, reward = step(action)
        return state + 1, reward

    state, reward = play(tf.constant(3))
    assert (state.numpy(), reward.numpy()) == (2.5, 3)


def test_text_is_no_reason_to_warn(caplog):
    letters = tf.keras.layers.StringLookup(vocabulary=["a", "b"], mask_token=None)

    @tf.function
    def ids(text):
        return letters(tf.strings.unicode_split(text, "UTF-8")).to_tensor()

    assert ids(tf.constant(["ab", "b"])).numpy().tolist() == [[1, 2], [2, 0]]
    assert letters(tf.constant(["b"])).numpy().tolist() == [2]
    assert not caplog.records


def test_what_replicas_run_must_be_compiled(caplog):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])

    def step(x):
        for _ in range(3):
            if x > 0:
                break
            x = x + 1
        return x

    @tf.function
    def run(x):
        return strategy.run(step, args=(x,))

    with pytest.raises(jax.errors.TracerBoolConversionError) as raised:
        run(tf.constant(1.0))
    note = next(note for note in raised.value.__notes__ if "strategy.run" in note)
    assert "always compiled" in note
    assert "`if x > 0:`" in note
    assert not caplog.records


def test_a_range_up_to_a_tensor_runs_on_values(caplog):
    @tf.function
    def total(n):
        found = tf.constant(0)
        for i in tf.range(n):
            if i % 2 == 0:
                continue
            found += i
        return found

    with caplog.at_level(logging.WARNING, "muster"):
        assert [int(total(tf.constant(n))) for n in (4, 6)] == [4, 9]
    (record,) = caplog.records
    assert "total runs uncompiled" in record.message


def test_a_long_loop_over_a_dataset_runs_on_values(caplog):
    weight = tf.Variable(1.0)
    traced = []

    @tf.function
    def train(dataset):
        for x in dataset:
            traced.append(isinstance(x, jax.core.Tracer) or isinstance(weight.value, jax.core.Tracer))
            with tf.GradientTape() as tape:
                loss = x * weight
            weight.assign_sub(0.5 * tape.gradient(loss, weight))

    numbers = tf.data.Dataset.range(1, 4).map(lambda x: tf.cast(x, tf.float32))
    with caplog.at_level(logging.WARNING, "muster"):
        train(numbers)
        assert weight.numpy() == -2.0
        assert all(traced)
        assert not caplog.records
        traced.clear()
        train(numbers.repeat(10))
    assert weight.numpy() == -32.0
    assert (len(traced), any(traced)) == (30, False)
    record = caplog.records[-1]
    assert "because of the loop over a dataset in `for x in dataset:`" in record.message


def test_a_loop_over_a_dataset_reads_it_in_every_call():
    data = {
        "shuffled": tf.data.Dataset.range(6).shuffle(6, seed=3),
        "drawn": tf.data.Dataset.range(6).map(lambda x: x + tf.random.uniform((), 0, 1 << 20, tf.int64)),
        "generated": tf.data.Dataset.from_generator(
            lambda: iter(np.random.default_rng().random(6)), output_signature=tf.TensorSpec((), tf.float64)
        ),
        "the same": tf.data.Dataset.range(6).map(lambda x: x + 1).batch(2),
    }
    for name, dataset in data.items():

        @tf.function
        def first(dataset=dataset):
            seen = [x for x in dataset]
            return tf.stack(seen)

        found = {first().numpy().tobytes() for _ in range(8)}
        assert (len(found) == 1) == (name == "the same"), name
        assert first.has_run_uncompiled == (name != "the same"), name


def test_code_of_replicas_reads_a_dataset_in_every_call():
    dataset = tf.data.Dataset.range(1000).shuffle(1000).batch(2)

    def draw():
        return next(iter(dataset))

    @tf.function
    def drawn():
        return tf.distribute.get_strategy().run(draw)

    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        for call in (drawn, functools.partial(tf.distribute.get_strategy().run, draw)):
            assert len({call().numpy().tobytes() for _ in range(4)}) > 1
    # More replicas run compiled, and would have the same elements each time.
    two = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with pytest.raises(DatasetLoopError, match="Read the dataset outside"):
        two.run(draw)
    same = tf.data.Dataset.range(2)
    assert two.experimental_local_results(two.run(lambda: next(iter(same)) + 1))[1] == 1


def test_a_loop_over_a_distributed_dataset_of_elsewhere(caplog):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    numbers = tf.data.Dataset.range(8).map(lambda x: tf.cast(x, tf.float32)).batch(4)
    dataset = strategy.experimental_distribute_dataset(numbers)
    with strategy.scope():
        total = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

    @tf.function
    def epoch():
        steps = 0
        for x in dataset:
            strategy.run(lambda part: total.assign_add(tf.reduce_sum(part)), args=(x,))
            steps += 1
        return steps

    @tf.function
    def two_epochs():
        return epoch() + epoch()

    with caplog.at_level(logging.WARNING, "muster"):
        assert int(epoch()) == 2
        assert total.numpy() == 28
        assert int(two_epochs()) == 4
    assert total.numpy() == 84
    assert not caplog.records


def test_the_next_element_of_a_plain_dataset():
    @tf.function
    def double(iterator):
        return next(iterator) * 2

    iterator = iter(tf.data.Dataset.range(3))
    assert [int(double(iterator)) for _ in range(3)] == [0, 2, 4]
    with pytest.raises(tf.errors.OutOfRangeError):
        double(iterator)


def test_concrete_functions_keep_their_constants():
    @tf.function
    def power(a, b):
        return a**b

    square = power.get_concrete_function(a=tf.TensorSpec(None, tf.float32), b=2)
    assert float(square(tf.constant(3.0))) == float(square(a=tf.constant(3.0))) == 9
    assert float(square(tf.constant(3.0), b=2)) == 9
    with pytest.raises(TypeError, match="argument b of this function is 2, got 3"):
        square(tf.constant(3.0), b=3)

    cube = power.get_concrete_function(tf.constant(1.0), 3)
    assert cube.structured_input_signature == ((tf.TensorSpec([], tf.float32), 3), {})
    assert float(cube(tf.constant(2.0))) == float(cube(tf.constant(2.0), 3)) == 8

    class Scale:
        factor = 5.0

    scaled = tf.function(lambda scale, x: scale.factor * x).get_concrete_function(Scale(), tf.constant(1.0))
    assert float(scaled(tf.constant(2.0))) == 10


def test_what_a_function_was_traced_for_is_told():
    @tf.function
    def power(a, b=2):
        return a**b

    power(tf.constant(1.0))
    power(tf.constant([1.0, 2.0]), b=3)
    assert power.pretty_printed_concrete_signatures().splitlines() == [
        "power(TensorSpec(shape=(), dtype=float32))",
        "power(TensorSpec(shape=(2,), dtype=float32), b=3)",
    ]


def test_text_by_name_is_not_compiled():
    double = tf.function(lambda text: text + text)
    assert double(text=tf.constant("a")).numpy() == b"aa"


def test_arguments_must_have_the_signatures_kind_of_numbers():
    halve = tf.function(lambda x: x // 2, input_signature=[tf.TensorSpec([None], tf.int32)])
    assert halve(tf.constant([4, 6])).numpy().tolist() == [2, 3]
    with pytest.raises(TypeError, match="must fit the function's input_signature.* got the dtype float32"):
        halve(tf.constant([4.0]))


def test_first_values_of_variables_may_be_computed_from_arguments():
    state = []

    @tf.function
    def scaled(x):
        if not state:
            state.append(tf.Variable(2.0 * x))
            state.append(tf.Variable(state[0] * 3.0))
        return state[0] * x * state[1]

    assert [float(scaled(tf.constant(x))) for x in (1.0, 3.0)] == [12, 36]
    assert [float(each) for each in state] == [2, 6]


def test_variables_may_be_created_with_computed_values_at_the_first_call():
    class Layer(tf.Module):
        w = None

        @tf.function
        def __call__(self, x):
            if self.w is None:
                self.w = tf.Variable(tf.random.normal([x.shape[-1], 2]) * 0.5)
                self.shifted = tf.Variable(self.w + 1)
                self.scale = tf.Variable(start + 1)
            return x @ self.w * self.scale

    start = tf.Variable(2.0)
    layer, other = Layer(), Layer()
    x = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    np.testing.assert_allclose(layer(x), 3 * layer.w, rtol=1e-6)
    np.testing.assert_allclose(layer.shifted, layer.w + 1)
    assert 0.05 < np.std(layer.w) < 2
    other(x)
    assert not np.allclose(other.w, layer.w)


def test_code_that_runs_eagerly_reads_the_numbers_of_what_it_differentiates():
    weight = tf.Variable(2.0)
    seen = []

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = weight * x
        seen.append(loss.numpy())
        return tape.gradient(loss, weight)

    tf.config.run_functions_eagerly(True)
    try:
        assert float(step(3.0)) == 3
    finally:
        tf.config.run_functions_eagerly(False)
    assert {*map(float, seen)} == {6.0}


def test_python_of_a_function_runs_once():
    """What it does beside computing is done while it is traced, as in TensorFlow."""
    seen, variable = [], tf.Variable(1.0)

    @tf.function
    def scaled(x):
        seen.append(x)
        if len(seen) == 1:
            variable.assign_add(1.0)
        return x * variable + tf.random.uniform([]) * 0

    assert [float(scaled(tf.constant(x))) for x in (1.0, 2.0, 3.0)] == [2, 6, 12]
    assert len(seen) == 1
    assert float(scaled(tf.constant([1.0]))[0]) == 4
    assert len(seen) == 2


def test_python_of_a_function_with_loops_gradients_or_new_variables_runs_twice():
    seen, made = [], []

    @tf.function
    def changed(x):
        seen.append(x)
        if not made:
            made.append(tf.Variable(2.0))
        with tf.GradientTape() as tape:
            last = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y), [0, made[0] * x])[1]
            loss = last + made[0] ** 2
        return tape.gradient(loss, made[0])

    assert [float(changed(tf.constant(x))) for x in (1.0, 3.0)] == [5, 7]
    assert len(seen) == 3  # once more, since it finds its variable


def test_gradients_of_single_elements_in_a_function_are_no_zeros():
    def derivative(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x**3
        return tape.gradient(y, x)

    @tf.function
    def derivatives(x):
        return tf.vectorized_map(derivative, x)

    np.testing.assert_allclose(derivatives(tf.constant([1.0, 2.0])), [3, 12])


def test_an_iterator_of_python_gives_its_elements_while_the_function_is_traced():
    @tf.function
    def following(iterator):
        return tf.constant(next(iterator))

    numbers = iter([1, 2, 3])
    assert [int(following(numbers)) for _ in range(3)] == [1, 1, 1]


def test_an_object_may_say_for_what_a_function_is_traced_anew():
    class Kind(tf.types.experimental.TraceType):
        def __init__(self, kind):
            self.kind = kind

        def is_subtype_of(self, other):
            return self == other

        def most_specific_common_supertype(self, others):
            return None

        def __hash__(self):
            return hash(self.kind)

        def __eq__(self, other):
            return type(other) is Kind and self.kind is other.kind

    class Fruit:
        def __tf_tracing_type__(self, context):
            return Kind(type(self))

    class Apple(Fruit):
        flavor = 1

    class Mango(Fruit):
        flavor = 2

    seen = []

    @tf.function
    def flavor(fruit):
        seen.append(fruit)
        return tf.constant(fruit.flavor)

    assert [int(flavor(fruit)) for fruit in (Apple(), Apple(), Mango(), Apple())] == [1, 1, 2, 1]
    assert len(seen) == 2
    assert isinstance(Apple(), tf.types.experimental.SupportsTracingProtocol)


def test_numpys_behaviour_is_switched_on_by_a_private_module_too():
    from muster_tensorflow.python.ops.numpy_ops import np_config

    np_config.enable_numpy_behavior()
    assert tf.constant([1.0]).reshape(1, 1).shape == (1, 1)
