"""``get_variable``, ``variable_scope`` and layers that are used again, in a model_fn."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf
from muster.program.trace._program import Program
from muster_tensorflow.programs.v1.variables._variables import kept_in


def program_of(function: Any) -> Program[Any]:
    return Program(lambda x: (function(x) or {}, None), jnp.ones((2, 3)))


def test_variables_have_the_names_of_their_scopes() -> None:
    def step(x: Any) -> None:
        with tf.variable_scope("a"):
            with tf.variable_scope("b/c", initializer=tf.zeros_initializer()):
                tf.get_variable("w", [3, 2])
            tf.get_variable("n", [], tf.int32)
            tf.get_variable("v", initializer=np.float32([1, 2]))
        tf.get_variable("k", 2, initializer=tf.ones_initializer, trainable=False)
        trained = [v.path for v in tf.trainable_variables("a/")]
        assert trained == ["a/b/c/w", "a/n", "a/v"]
        assert [v.path for v in tf.global_variables()] == [*trained, "k"]
        assert tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, "k")[0].path == "k"

    initial = program_of(step).initial
    values = {path: np.asarray(value).tolist() for path, value in initial.items()}
    assert values == {"a/b/c/w": [[0, 0]] * 3, "a/n": 0, "a/v": [1, 2], "k": [1, 1]}


def test_variables_are_found_again() -> None:
    def step(x: Any) -> dict[str, Any]:
        with tf.variable_scope("a") as scope:
            first = tf.get_variable("w", [3], initializer=tf.ones_initializer())
        with tf.variable_scope("a", reuse=True):
            assert tf.get_variable("w", [3]) is first
            with pytest.raises(ValueError, match="a/other does not exist among the variables"):
                tf.get_variable("other", [3])
            with pytest.raises(ValueError, match=r"specified shape \(4,\) and found shape \(3,\)"):
                tf.get_variable("w", [4])
        with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
            assert tf.get_variable("w") is first
            assert tf.get_variable("new", [1]) is tf.get_variable("new", [1])
        with tf.variable_scope(scope):
            with pytest.raises(ValueError, match="a/w exists already"):
                tf.get_variable("w", [3])
            tf.get_variable_scope().reuse_variables()
            assert tf.get_variable("w") is first
        return {"sum": tf.reduce_sum(first)}

    assert sorted(program_of(step).initial) == ["a/new", "a/w"]


def test_default_names_are_numbered() -> None:
    def step(x: Any) -> None:
        for _ in range(2):
            with tf.variable_scope(None, "block", [x]) as scope:
                tf.get_variable("w", [1])
        assert (scope.name, tf.get_variable_scope().name) == ("block_1", "")

    assert sorted(program_of(step).initial) == ["block/w", "block_1/w"]


@pytest.mark.parametrize("kept", [False, True])
def test_default_names_count_from_zero_in_a_scope_entered_again(kept: bool) -> None:
    """What TensorFlow 2.15.1 says of the same code."""
    names = []

    def note() -> None:
        with tf.variable_scope(None, "b") as scope:
            names.append(scope.name)

    def step(_: Any) -> dict[str, Any]:
        names.clear()
        with tf.variable_scope("a"):
            note()
            note()
        with tf.variable_scope("a", reuse=True):
            note()
        with tf.variable_scope("a") as scope:
            with tf.variable_scope("b"):
                note()
            note()
            with tf.variable_scope(scope, reuse=True):
                note()
            note()
        with tf.variable_scope(scope):
            note()
        note()
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            note()
        note()
        with tf.variable_scope(None, "b/c") as scope:
            names.append(scope.name)
        return {}

    if kept:
        with kept_in({}):
            step(None)
    else:
        outputs_of(step)
    assert names == [
        *("a/b", "a/b_1", "a/b", "a/b/b", "a/b_1", "a/b_2", "a/b_2", "a/b"),
        *("b", "b_1", "b_1", "b/c"),
    ]


def test_layers_in_a_scope_entered_in_itself_are_others() -> None:
    def step(x: Any) -> dict[str, Any]:
        with tf.variable_scope("a") as scope:
            tf.layers.dense(x, 1, use_bias=False)
            with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
                tf.layers.dense(x, 1, use_bias=False)
        return {}

    assert sorted(program_of(step).initial) == ["a/dense/kernel", "a/dense_1/kernel"]


def test_scopes_say_what_is_wrong() -> None:
    def step(x: Any) -> None:
        with tf.variable_scope("a") as a:
            pass
        with tf.variable_scope("b"):
            with pytest.raises(ValueError, match="'a' cannot be entered inside of 'b'"), tf.variable_scope(a):
                pass
        with pytest.raises(ValueError, match="name_or_scope is required"), tf.variable_scope(None):
            pass
        with pytest.raises(ValueError, match="must be fully defined"):
            tf.get_variable("w")

    program_of(step)


def test_layers_take_what_the_scope_says_and_are_found_again() -> None:
    def step(x: Any) -> dict[str, Any]:
        regularizer = tf.keras.regularizers.L2(0.5)
        with tf.variable_scope("net", initializer=tf.ones_initializer(), regularizer=regularizer):
            once = tf.layers.dense(x, 2, name="fc")
        with tf.variable_scope("net", reuse=True):
            again = tf.layers.dense(x, 2, name="fc")
            with pytest.raises(ValueError, match="net/dense does not exist among the layers"):
                tf.layers.dense(x, 2)
            with pytest.raises(ValueError, match="net/nothing does not exist among the layers"):
                tf.layers.dense(x, 2, name="nothing")
        other = tf.layers.dense(x, 2, name="out")
        assert tf.layers.dense(x, 2, name="out", reuse=True).shape == other.shape
        return {"once": once, "again": again, "penalty": tf.losses.get_regularization_loss("net")}

    program = program_of(step)
    assert sorted(program.initial) == ["net/fc/bias", "net/fc/kernel", "out/bias", "out/kernel"]
    _, outputs = program.step(program.initial, jnp.ones((2, 3)))
    assert outputs["once"].tolist() == outputs["again"].tolist() == [[3, 3], [3, 3]]
    assert float(outputs["penalty"]) == 0.5 * 6


def test_an_estimator_trains_variables_of_scopes(tmp_path: Path) -> None:
    data = np.ones((8, 2), np.float32)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        with tf.variable_scope("linear", reuse=tf.AUTO_REUSE):
            weights = tf.get_variable("w", [2, 1], initializer=tf.truncated_normal_initializer(stddev=0.1))
        loss = tf.losses.mean_squared_error(labels, tf.matmul(features, weights))
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.estimator.Estimator(model_fn, tmp_path)
    estimator.train(lambda: tf.data.Dataset.from_tensors((data, data[:, :1])), max_steps=1)
    estimator.train(lambda: tf.data.Dataset.from_tensors((data, data[:, :1])).repeat(), max_steps=30)
    np.testing.assert_allclose(data @ estimator.get_variable_value("linear/w"), data[:, :1], atol=1e-2)


@pytest.mark.parametrize(
    ("initializer", "expected"),
    [
        (tf.constant_initializer(3), [[3, 3], [3, 3]]),
        (tf.constant_initializer([1, 2, 3, 4]), [[1, 2], [3, 4]]),
        (tf.constant_initializer((1, 2)), [[1, 2], [2, 2]]),
        (tf.initializers.zeros(dtype=tf.float32), [[0, 0], [0, 0]]),
        (tf.initializers.identity(), [[1, 0], [0, 1]]),
    ],
)
def test_initializers_give_values(initializer: Any, expected: list[list[float]]) -> None:
    assert np.asarray(initializer((2, 2), "float32")).tolist() == expected


def test_random_initializers_have_the_defaults_of_tensorflow_1() -> None:
    shape = (200, 200)
    normal = np.asarray(tf.random_normal_initializer(seed=1)(shape))
    assert abs(normal.std() - 1) < 0.02
    uniform = np.asarray(tf.random_uniform_initializer(seed=1)(shape))
    assert 0 <= uniform.min() < 0.01 < 0.99 < uniform.max() <= 1
    cut = np.asarray(tf.truncated_normal_initializer(0.0, 0.5, seed=1, dtype=tf.float32)(shape))
    assert np.abs(cut).max() <= 1
    limit = np.sqrt(6 / 400)
    assert np.abs(tf.glorot_uniform_initializer(seed=1)(shape)).max() <= limit
    scaled = np.asarray(tf.variance_scaling_initializer(2.0, distribution="normal", seed=1)(shape))
    assert abs(scaled.std() - np.sqrt(2 / 200)) < 0.005
    square = np.asarray(tf.orthogonal_initializer(gain=2.0, seed=1)((4, 4)))
    np.testing.assert_allclose(square @ square.T, 4 * np.eye(4), atol=1e-5)
    assert np.abs(tf.glorot_normal_initializer(seed=1)(shape)).std() < 0.1


def test_getters_of_scopes_make_what_code_gets() -> None:
    asked = []

    def halved(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        asked.append((name, kwargs["shape"], np.dtype(kwargs["dtype"]).name))
        return getter(name, *args, **kwargs) / 2

    def negative(getter: Any, name: str, shape: Any = None, **kwargs: Any) -> Any:
        return -getter(name, shape=shape, **kwargs)

    with tf.variable_scope("a", custom_getter=halved, initializer=tf.ones_initializer()):
        with tf.variable_scope("b", custom_getter=negative):
            found = tf.get_variable("w", [2])
        own = tf.get_variable("v", [1], custom_getter=negative)
    np.testing.assert_array_equal(np.asarray(found), [-0.5, -0.5])
    np.testing.assert_array_equal(np.asarray(own), [-0.5])
    assert asked == [("a/b/w", [2], "float32"), ("a/v", [1], "float32")]

    def elsewhere(getter: Any, name: str, **kwargs: Any) -> Any:
        return getter(f"other/{name}", **kwargs)

    with (
        tf.variable_scope("a", custom_getter=elsewhere),
        pytest.raises(ValueError, match="outside of the scope"),
    ):
        tf.get_variable("w", [2])


def test_layers_compute_with_what_getters_return() -> None:
    asked = []

    def same(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        asked.append(name)
        return getter(name, *args, **kwargs)

    def doubled(getter: Any, name: str, **kwargs: Any) -> Any:
        return getter(name, **kwargs) * 2

    def step(getter: Any) -> dict[str, Any]:
        x = np.ones([1, 3])
        with tf.variable_scope("a", initializer=tf.ones_initializer()):
            plain = tf.layers.dense(x, 1)
        with tf.variable_scope("a", reuse=True, custom_getter=getter):
            again = tf.layers.dense(x, 1)
        with tf.variable_scope("b", custom_getter=getter):
            normal = tf.layers.batch_normalization(tf.constant([[3.0]]), training=False)
        return {"plain": plain, "again": again, "normal": normal}

    outputs = outputs_of(lambda _: step(same))
    assert asked[:2] == ["a/dense/kernel", "a/dense/bias"]
    assert outputs["plain"] == outputs["again"] == 3
    outputs = outputs_of(lambda _: step(doubled))
    assert (outputs["plain"], outputs["again"]) == (3, 6)
    np.testing.assert_allclose(outputs["normal"], 6 / np.sqrt(2.001))
    with pytest.raises(ValueError, match="returns a value of shape"):
        program_of(lambda x: step(lambda getter, name, **kwargs: getter(name, **kwargs)[0]))


def test_averages_take_the_place_of_variables() -> None:
    def step(_: Any) -> dict[str, Any]:
        def model(reuse: bool | None = None, getter: Any = None) -> Any:
            with tf.variable_scope("a", reuse=reuse, custom_getter=getter):
                bias = tf.get_variable("b", [1], initializer=tf.ones_initializer())
                return tf.layers.dense(np.ones([1, 3]), 1, kernel_initializer=tf.ones_initializer()) + bias

        def averaged(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            variable = getter(name, *args, **kwargs)
            average = averages.average(variable)
            return average if average else variable

        model()
        averages = tf.train.ExponentialMovingAverage(0.75)
        for variable in tf.trainable_variables("a"):
            variable.assign(variable + 4)
        averages.apply(tf.trainable_variables("a"))
        return {"now": model(True), "averaged": model(True, averaged)}

    outputs = outputs_of(step)
    assert (outputs["now"], outputs["averaged"]) == (3 * 5 + 4 + 5, 3 * 2 + 1 + 2)


def test_averages_of_other_values_start_from_zero_and_are_called_after_them() -> None:
    def step(x: Any) -> dict[str, Any]:
        loss = tf.add_n([x, 0 * x], name="total")
        unnamed = [2 * loss, 3 * loss]
        averages = tf.train.ExponentialMovingAverage(0.75)
        assert averages.average(loss) is None
        averages.apply([loss, *unnamed])
        assert averages.average(loss).path == averages.average_name(loss) == "total/ExponentialMovingAverage"
        assert len({averages.average(each).path for each in unnamed}) == 2
        return {"share": averages.average(loss) / loss, "of_three": averages.average(unnamed[1]) / loss}

    outputs = outputs_of(step)
    assert (outputs["share"], outputs["of_three"]) == (0.25, 0.75)


def test_constraints_of_scopes_are_those_of_variables_and_layers() -> None:
    def clipped(value: Any) -> Any:
        return value.clip(0, 1)

    def step(x: Any) -> dict[str, Any]:
        with tf.variable_scope("a", constraint=clipped):
            variable = tf.get_variable("w", [2])
            tf.layers.dense(x, 1, name="dense")
        assert variable.constraint is clipped
        assert [v.constraint for v in tf.trainable_variables("a/dense")] == [clipped, clipped]
        return {}

    program_of(step)


def test_initializers_of_programs_get_a_dtype() -> None:
    seen = []

    def initial(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        seen.append(dtype)
        return np.ones(shape)

    outputs = outputs_of(lambda _: {"v": tf.get_variable("v", [2], initializer=initial) + 0})
    assert outputs["v"].tolist() == [1, 1]
    assert all(dtype is tf.float32 for dtype in seen)


def test_variables_are_keys_of_dicts() -> None:
    first, second = tf.Variable([1.0]), tf.Variable([1.0])
    gradients = {first: "a", second: "b"}
    assert (gradients[first], gradients[second]) == ("a", "b")
    assert first
    assert not tf.Variable(False)
