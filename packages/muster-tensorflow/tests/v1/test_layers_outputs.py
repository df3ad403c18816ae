"""What layers of ``tf.contrib.slim`` return, in collections: the end points of a network."""

from typing import Any

import jax
import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf1
import muster_tensorflow.contrib as contrib

slim = contrib.slim


@slim.add_arg_scope  # type: ignore[untyped-decorator]
def unit(inputs: Any, depth: int, outputs_collections: Any = None, scope: Any = None) -> Any:
    """Return the sum of the inputs and what a layer makes of them, as units of residual networks do."""
    with tf1.variable_scope(scope, "unit", [inputs]) as own:
        assert slim.utils.last_dimension(inputs.get_shape(), min_rank=4) == depth
        outputs = inputs + slim.conv2d(inputs, depth, 3, scope="conv1")
        return slim.utils.collect_named_outputs(outputs_collections, own.name, outputs)


def test_a_network_has_its_end_points_by_name() -> None:
    def network(x: Any) -> dict[str, Any]:
        images = jax.numpy.zeros([2, 8, 8, 4])
        with tf1.variable_scope("net", "default", [images]) as scope:
            collection = scope.original_name_scope + "_end_points"
            layers = [slim.conv2d, slim.max_pool2d, slim.fully_connected, unit]
            with slim.arg_scope(layers, outputs_collections=collection):
                net = slim.conv2d(images, 4, 3, scope="conv1")
                net = slim.max_pool2d(net, 2, scope="pool1")
                for block in ("block1", "block2"):
                    with tf1.variable_scope(block):
                        net = unit(net, 4)
                net = slim.fully_connected(slim.flatten(net), 3, activation_fn=None, scope="logits")
            points = slim.utils.convert_collection_to_dict(collection, clear_collection=True)
            assert slim.utils.convert_collection_to_dict(collection) == {}
        assert list(points) == [
            *("net/conv1", "net/pool1", "net/block1/unit/conv1", "net/block1/unit"),
            *("net/block2/unit/conv1", "net/block2/unit", "net/logits"),
        ]
        assert points["net/logits"] is net
        assert points["net/pool1"].shape == (2, 4, 4, 4)
        return {"x": x}

    outputs_of(network)


def test_values_without_an_alias_have_the_name_of_their_operation() -> None:
    def step(x: Any) -> dict[str, Any]:
        tf1.add_to_collection("points", tf1.multiply(x, 2, name="twice"))
        assert list(contrib.layers.utils.convert_collection_to_dict("points")) == ["twice"]
        return {"x": x}

    outputs_of(step)


def test_the_last_dimension_is_there() -> None:
    assert slim.utils.last_dimension((None, 3)) == 3
    with pytest.raises(ValueError, match="at least 4 not: 2"):
        slim.utils.last_dimension((None, 3), min_rank=4)
    with pytest.raises(ValueError, match="must be known"):
        slim.utils.last_dimension((3, None))


def test_gradients_are_multiplied_and_clipped_one_by_one() -> None:
    def step(x: Any) -> dict[str, Any]:
        variables = [tf1.get_variable(name, [2], initializer=tf1.zeros_initializer()) for name in "abc"]
        loss = sum(tf1.reduce_sum(each.value * np.array([3.0, 4.0], np.float32)) for each in variables)
        slim.learning.create_train_op(
            loss,
            tf1.train.GradientDescentOptimizer(1.0),
            clip_gradient_norm=1.0,
            gradient_multipliers={variables[0]: 0.1, "b": 0.5},
        )
        return {each.path: each.value for each in variables}

    after = outputs_of(step)
    np.testing.assert_allclose(after["a"], [-0.3, -0.4], rtol=1e-6)
    np.testing.assert_allclose(after["b"], [-0.6, -0.8], rtol=1e-6)
    np.testing.assert_allclose(after["c"], [-0.6, -0.8], rtol=1e-6)


def test_wrong_multipliers_are_refused() -> None:
    def step(x: Any) -> dict[str, Any]:
        variable = tf1.get_variable("a", [])
        with pytest.raises(ValueError, match="gradient_multipliers is empty"):
            contrib.training.multiply_gradients([(x, variable)], {})
        with pytest.raises(ValueError, match="a has none"):
            contrib.training.multiply_gradients([(None, variable)], {"a": 2.0})
        (clipped,) = contrib.training.clip_gradient_norms_fn(1.0)([(None, variable)])
        assert clipped == (None, variable)
        return {"x": x}

    outputs_of(step)
