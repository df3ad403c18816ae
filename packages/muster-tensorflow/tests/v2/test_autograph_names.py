"""``tf.autograph``: what is accepted where nothing is converted."""

import pickle

import pytest

import muster_tensorflow as tf

experimental = tf.autograph.experimental


def test_features_are_accepted() -> None:
    lists, every = experimental.Feature.LISTS, experimental.Feature.ALL
    assert {lists, every} < {*experimental.Feature.all()}
    assert {*experimental.Feature.all()} - {*experimental.Feature.all_but(lists)} == {lists, every}
    assert int(tf.function(lambda x: x + 1, experimental_autograph_options=lists)(1)) == 2


def test_loops_have_options() -> None:
    def doubled(x: object) -> object:
        for _ in range(2):
            experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None]))])
            x = tf.concat([x, x], 0)
        return x

    assert tf.function(doubled)(tf.constant([1])).shape == [4]
    with pytest.raises(ValueError, match="got maximum_iterations=3"):
        experimental.set_loop_options(maximum_iterations=3)


def test_the_code_of_a_function_is_its_own() -> None:
    @tf.function
    def doubled(x: object) -> object:
        return 2 * x  # type: ignore[operator]

    code = tf.autograph.to_code(doubled.python_function)
    assert code == tf.autograph.to_code(doubled)
    assert "def doubled(x: object) -> object:\n    return 2 * x" in code


def test_modules_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(experimental)) is experimental
