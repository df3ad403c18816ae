"""Hooks read values of a step by the names that programs for TensorFlow 1 gave them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import muster_tensorflow as tf2
import muster_tensorflow.compat.v1 as tf
from muster.program.trace import Program

ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)


class Fetching(tf.train.SessionRunHook):
    """Asks for values before each run from a step on, and keeps what it gets."""

    def __init__(self, fetches: Any, first: int = 0) -> None:
        self.fetches = fetches
        self.first = first
        self.runs = 0
        self.got: list[Any] = []

    def before_run(self, run_context: Any) -> Any:
        self.runs += 1
        return tf.train.SessionRunArgs(self.fetches) if self.runs > self.first else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results is not None:
            self.got.append(run_values.results)


def input_fn() -> Any:
    return tf.data.Dataset.from_tensor_slices({"x": ROWS}).repeat().batch(4)


def train(
    tmp_path: Path,
    build: Callable[[Any], Any],
    *hooks: Any,
    strategy: Any = None,
    steps: int = 3,
) -> None:
    def model_fn(features: Any, mode: Any) -> Any:
        made = build(features["x"])
        own, value = made if isinstance(made, tuple) else ([], made)
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        loss = w + tf.reduce_mean(value)
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=own)

    config = tf.estimator.RunConfig(train_distribute=strategy)
    tf.estimator.Estimator(model_fn, str(tmp_path), config).train(input_fn, list(hooks), steps)


def test_operations_name_what_they_return(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        tf.argmax(x, 1, name="classes")
        tf.identity(x, "rows")
        tf.identity(0.25, "learning_rate")
        tf.constant(3, name="three")
        return tf.nn.softmax(x, name="softmax_tensor")

    names = ("softmax_tensor:0", "classes", "rows", "learning_rate:0", "three", "w:0")
    hook = Fetching(names)
    train(tmp_path, build, hook)
    softmax, classes, rows, rate, three, _ = hook.got[0]
    np.testing.assert_allclose(softmax, jax.nn.softmax(ROWS), rtol=1e-6)
    assert classes.tolist() == [1, 1, 1, 1]
    np.testing.assert_array_equal(rows, ROWS)
    assert (rate, three) == (0.25, 3)
    assert len(hook.got) == 3


def test_names_begin_with_those_of_the_scopes(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        with tf.name_scope("outer") as prefix:
            assert prefix == "outer/"
            with tf.variable_scope("inner"):
                tf.square(x, name="squares")
            tf.square(x, name="squares")
            return tf.reduce_sum(x, axis=1, name="squares")

    hook = Fetching({"a": "outer/inner/squares", "b": "outer/squares:0", "c": "outer/squares_1:0"})
    train(tmp_path, build, hook)
    np.testing.assert_array_equal(hook.got[0]["a"], ROWS**2)
    np.testing.assert_array_equal(hook.got[0]["b"], ROWS**2)
    np.testing.assert_array_equal(hook.got[0]["c"], ROWS.sum(1))


def test_a_scope_that_is_opened_again_has_a_number(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        for factor in (1, 2):
            with tf.name_scope("Tower") as prefix:
                tf.multiply(x, factor, name="scaled")
            with tf.variable_scope("net", reuse=tf.AUTO_REUSE) as scope:
                tf.layers.dense(x * factor, 2, name="out", kernel_initializer=tf.ones_initializer())
        assert (prefix, scope.name, scope.original_name_scope) == ("Tower_1/", "net", "net_1/")
        with tf.name_scope(prefix):
            tf.negative(x, name="negated")
            with tf.name_scope("tower"), tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
                tf.negative(x, name="negated")
        with tf.variable_scope(scope, reuse=True), tf.name_scope(scope.original_name_scope):
            tf.negative(x, name="negated")
        with tf.variable_scope("net", reuse=True, auxiliary_name_scope=False):
            tf.negative(x, name="negated")
        assert [each.name for each in tf.trainable_variables()] == ["net/out/kernel:0", "net/out/bias:0"]
        return x

    values = ["Tower/scaled", "Tower_1/scaled", "net/out/BiasAdd", "net_1/out/BiasAdd"]
    negated = ["Tower_1/negated", "Tower_1/tower/negated", "net_1/negated", "negated"]
    hook = Fetching([*values, *negated])
    train(tmp_path, build, hook, steps=1)
    first, second, out, again, *rest = hook.got[0]
    np.testing.assert_array_equal(second, first * 2)
    np.testing.assert_array_equal(again, out * 2)
    for each in rest:
        np.testing.assert_array_equal(each, -ROWS)


def test_members_of_a_result_are_numbered(tmp_path: Path) -> None:
    hook = Fetching(["top:0", "top:1"])
    train(tmp_path, lambda x: tf.nn.top_k(x, 1, name="top")[0], hook)
    assert [each.ravel().tolist() for each in hook.got[0]] == [[1, 3, 5, 7], [1, 1, 1, 1]]


def test_layers_and_losses_have_tensorflows_names(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        logits = tf.layers.dense(x, 2, name="logits")
        tf.layers.dense(x, 2, activation=tf.nn.relu, name="hidden")
        return tf.losses.softmax_cross_entropy(np.eye(2, dtype=np.float32)[[0, 1, 0, 1]], logits)

    hook = Fetching(["logits/BiasAdd:0", "hidden/Relu:0", "softmax_cross_entropy_loss/value:0"])
    train(tmp_path, build, hook)
    logits, hidden, loss = hook.got[0]
    assert logits.shape == (4, 2)
    assert hidden.min() >= 0
    np.testing.assert_allclose(
        loss, -jax.nn.log_softmax(logits)[np.arange(4), np.array([0, 1, 0, 1])].mean(), rtol=1e-5
    )


def test_a_hook_may_hold_values_of_the_model_fn(tmp_path: Path) -> None:
    made = []

    def build(x: Any) -> Any:
        total = tf.reduce_sum(x)
        made.append(Fetching({"total": total, "step": tf.train.get_global_step()}))
        return made[-1:], total

    train(tmp_path, build)
    assert made[0].got[0] == {"total": ROWS.sum(), "step": 1}


def test_a_name_may_be_asked_for_late(tmp_path: Path) -> None:
    hook = Fetching("late", first=2)
    train(tmp_path, lambda x: tf.reduce_max(x, name="late"), hook, steps=4)
    assert hook.got == [7, 7]


def test_rows_are_those_of_all_replicas_and_numbers_of_the_first(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        tf.reduce_sum(x, name="sum_of_rows")
        return tf.square(x, name="squares")

    hook = Fetching(["squares", "sum_of_rows"])
    train(tmp_path, build, hook, strategy=tf2.distribute.MirroredStrategy(["cpu:0", "cpu:1"]))
    squares, total = hook.got[0]
    assert squares.shape == (8, 2)
    assert total == ROWS.sum()


def test_logging_hook_finds_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "muster")
    hook = tf.train.LoggingTensorHook({"top": "largest"}, every_n_iter=2)
    train(tmp_path, lambda x: tf.reduce_max(x, name="largest"), hook)
    assert any(record.message.startswith("top = 7.0") for record in caplog.records)


def test_names_in_branches_and_loops_are_unknown(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        some = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.identity(x, "inside"), lambda: tf.square(x, name="i"))
        return tf.map_fn(lambda row: tf.identity(tf.reduce_sum(row), "of_row"), some)

    for name in ("inside", "i", "of_row"):
        with pytest.raises(KeyError, match=f"no output or variable '{name}'"):
            train(tmp_path / name, build, Fetching(name))


def test_what_nobody_asks_for_is_no_output() -> None:
    def build(x: Any) -> Any:
        tf.square(x, name="squares")
        return {}, None

    program: Program[None] = Program(build, jax.ShapeDtypeStruct((4, 2), "float32"))
    assert program.outputs == {}
    assert program.step({}, ROWS)[1] == {}
    program.expose("squares")
    np.testing.assert_array_equal(program.step({}, ROWS)[1]["squares"], ROWS**2)


@pytest.mark.parametrize("name", ["predictions", "metrics"])
def test_values_may_have_names_of_what_other_modes_return(tmp_path: Path, name: str) -> None:
    hook = Fetching([name, f"{name}:0"])
    train(tmp_path, lambda x: tf.identity(x[0], name=name), hook, steps=1)
    assert [each.tolist() for each in hook.got[0]] == [[0, 1], [0, 1]]
