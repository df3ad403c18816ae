"""``tf.train.Checkpoint`` sets variables that are created after ``restore``, as TensorFlow's guide shows."""

from pathlib import Path

import numpy as np
import pytest

import muster_tensorflow as tf
from muster import CheckpointMismatchError


class Flexible(tf.Module):
    """A dense layer that creates its variables in the first call."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.w = self.b = None

    def __call__(self, x):
        if self.w is None:
            self.w = tf.Variable(tf.random.normal([x.shape[-1], self.size]), name="w")
            self.b = tf.Variable(tf.ones([self.size]), name="b")
        return x @ self.w + self.b


class Two(tf.Module):
    """Two of them, in a list and alone."""

    def __init__(self) -> None:
        super().__init__()
        self.last = Flexible(2)
        self.first = [Flexible(3)]

    def __call__(self, x):
        return self.last(self.first[0](x))


X = np.float32([[1, 2, 3]])


@pytest.fixture
def saved(tmp_path: Path) -> tuple[str, np.ndarray]:
    model = Two()
    expected = model(X)
    return tf.train.Checkpoint(model=model).write(tmp_path / "saved"), np.asarray(expected)


def test_modules_get_values_when_they_create_variables(saved) -> None:
    path, expected = saved
    model = Two()
    status = tf.train.Checkpoint(model=model).restore(path)
    with pytest.raises(AssertionError, match="4 variables that are not here"):
        status.assert_consumed()
    np.testing.assert_allclose(model(X), expected, rtol=1e-6)
    status.assert_consumed()
    model.last.b.assign([5.0, 5.0])
    model.more = tf.Variable(1.0)  # nothing is set again
    assert model.last.b.numpy().tolist() == [5, 5]


def test_a_function_that_creates_them(saved) -> None:
    path, expected = saved
    model = Two()
    call = tf.function(model)
    tf.train.Checkpoint(model=model).restore(path)
    np.testing.assert_allclose(call(X), expected, rtol=1e-6)
    np.testing.assert_allclose(call(X), expected, rtol=1e-6)


def test_other_shapes_are_an_error(saved) -> None:
    model = Two()
    tf.train.Checkpoint(model=model).restore(saved[0])
    with pytest.raises(CheckpointMismatchError, match=r"first.0.w has the shape"):
        model(np.ones((1, 4), np.float32))
    del model.first, model.last


def test_checkpoints_of_some_attributes(tmp_path: Path) -> None:
    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.l1 = tf.keras.layers.Dense(5)

        def call(self, x):
            return self.l1(x)

    net = Net()
    net(np.ones((1, 1), np.float32))
    net.l1.bias.assign(np.arange(5))
    path = tf.train.Checkpoint(net=net, step=tf.Variable(3)).save(tmp_path / "ckpt")
    bias, kernel = tf.Variable(tf.zeros(5)), tf.Variable(tf.zeros((1, 5)))
    layer = tf.train.Checkpoint(bias=bias)
    root = tf.train.Checkpoint(net=tf.train.Checkpoint(l1=layer))
    status = root.restore(path)
    assert bias.numpy().tolist() == [0, 1, 2, 3, 4]
    layer.kernel = kernel
    np.testing.assert_array_equal(kernel, net.l1.kernel)
    with pytest.raises(AssertionError, match="1 variables that are not here, such as step"):
        status.assert_consumed()


def test_lists_and_dicts(tmp_path: Path) -> None:
    save = tf.train.Checkpoint()
    save.listed = [tf.Variable(1.0)]
    save.listed.append(tf.Variable(2.0))
    save.mapped = {"one": save.listed[0], "two": save.listed[1]}
    path = save.save(tmp_path / "ckpt")
    restore, one, two = tf.train.Checkpoint(), tf.Variable(0.0), tf.Variable(0.0)
    restore.mapped = {"two": two}
    restore.restore(path)
    assert two.numpy() == 2
    restore.listed = []
    restore.listed.append(one)
    assert one.numpy() == 1
