"""Classes of values with declared fields, which functions take apart."""

from collections.abc import Mapping

import numpy as np
import pytest

import muster_tensorflow as tf
from muster_tensorflow import keras


class Masked(tf.experimental.ExtensionType):
    """Values, of which some are valid."""

    values: tf.Tensor
    mask: tf.Tensor

    def __validate__(self):
        self.values.shape.assert_is_compatible_with(self.mask.shape)

    def with_default(self, default):
        return tf.where(self.mask, self.values, default)


class Node(tf.experimental.ExtensionType):
    """A tree."""

    value: tf.Tensor
    children: tuple["Node", ...] = ()
    name: str = "node"


class Toy(tf.experimental.ExtensionType):
    """A class with a constructor of its own."""

    name: str
    price: tf.Tensor

    def __init__(self, name, price, discount=0):
        self.name = name
        self.price = price * (1 - discount)


class Player(tf.experimental.ExtensionType):
    """A class with text, and numbers by name."""

    name: tf.Tensor
    scores: Mapping[str, tf.Tensor]


def test_fields_are_converted_to_what_annotations_say():
    made = Masked([1, 2], mask=[True, False])
    tree = Node(3, [Node(5), Node(2, name="leaf")])

    assert made.values.dtype == tf.int32
    assert made.mask.dtype == tf.bool
    np.testing.assert_array_equal(made.with_default(0), [1, 0])
    assert isinstance(tree.children, tuple)
    assert tree.children[1].name == "leaf"
    assert int(tree.children[0].value) == 5


@pytest.mark.parametrize(
    "make", [lambda: Masked([1], None), lambda: Node(1, [3]), lambda: Node(1, name=3), lambda: Masked([1])]
)
def test_other_values_are_refused(make):
    with pytest.raises(TypeError):
        make()


def test_a_class_may_check_its_fields():
    with pytest.raises(ValueError, match="incompatible"):
        Masked([1, 2, 3], [True, False])


def test_values_do_not_change():
    made = Masked([1], [True])

    with pytest.raises(AttributeError, match="cannot change"):
        made.mask = [False]
    with pytest.raises(AttributeError, match="cannot change"):
        del made.mask


def test_a_constructor_of_the_class_sets_fields():
    assert float(Toy("ball", 5.0, discount=0.2).price) == 4.0


def test_fields_of_a_base_come_first():
    class Named(Masked):
        name: str

    made = Named([1, 2], [True, True], "x")

    assert (made.name, list(vars(made))) == ("x", ["values", "mask", "name"])


def test_equal_values_have_equal_fields_of_one_shape():
    one = Masked([1, 2], [True, False])

    assert one == Masked([1, 2], [True, False])
    assert one != Masked([1, 3], [True, False])
    assert one != Masked([[1, 2]], [[True, False]])
    assert one != one.values


def test_functions_take_and_return_them():
    traces = []

    @tf.function
    def doubled(masked):
        traces.append(None)
        return Masked(masked.values * 2, masked.mask)

    found = [doubled(Masked([each, 2], [True, False])) for each in (1, 3)]

    assert isinstance(found[1], Masked)
    assert len(traces) == 1
    np.testing.assert_array_equal(found[1].values, [6, 4])


def test_a_function_may_get_one_with_text():
    @tf.function
    def anonymous(player):
        return Player("x", player.scores)

    found = anonymous(Player("Anne", {"height": 8.5}))

    assert found.name.numpy() == b"x"
    assert float(found.scores["height"]) == 8.5


def test_tapes_see_operations_on_fields():
    with tf.GradientTape() as tape:
        values = tf.constant([1.0, 2.0])
        tape.watch(values)
        loss = tf.reduce_sum(Masked(values, [True, False]).with_default(0.0) ** 2)

    np.testing.assert_array_equal(tape.gradient(loss, values), [2.0, 0.0])


def test_specs_say_what_is_in_the_fields():
    spec = tf.type_spec_from_value(Player("Anne", {"height": 8.5}))

    assert spec.name == tf.TensorSpec((), tf.string)
    assert spec.scores["height"] == tf.TensorSpec((), tf.float32)
    assert spec == Player.Spec(tf.TensorSpec((), tf.string), {"height": tf.TensorSpec((), tf.float32)})
    assert spec.is_compatible_with(Player("Bart", {"height": 1.0}))
    assert not spec.is_compatible_with(Player("Bart", {"width": 1.0}))
    assert Player.Spec.value_type is Player


def test_annotations_of_other_types_are_refused():
    class Listed(tf.experimental.ExtensionType):
        items: list

    with pytest.raises(TypeError, match="items"):
        Listed([1])


def test_keras_sees_one_value():
    made = Masked([1], [True])

    assert keras.tree.flatten([made, made]) == [made, made]
