"""Layers of programs on images of unknown sizes; it fails when what is used of Keras changes."""

import numpy as np
import pytest

import muster_tensorflow as tf


class Pyramid(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.half = tf.keras.layers.Conv2D(2, 3, 2, "same")
        self.quarter = tf.keras.layers.Conv2D(2, 3, 2, "same")
        self.double = tf.keras.layers.UpSampling2D(2)

    def call(self, images):
        half = self.half(images)
        return half + self.double(self.quarter(half)), tf.reduce_mean(half, axis=(1, 2))


def test_a_pyramid_of_images_whose_size_is_not_known():
    images = tf.keras.Input((None, None, 3))
    features, means = Pyramid()(images)
    assert (features.shape, means.shape) == ((None, None, None, 2), (None, 2))
    model = tf.keras.Model(images, tf.keras.layers.Conv2D(1, 1)(features))
    for size in (8, 16):
        assert model.predict(np.ones((1, size, size, 3)), verbose=0).shape == (1, size // 2, size // 2, 1)


class Waves(tf.keras.layers.Layer):
    """Adds rows of a table that has more than a sequence."""

    def __init__(self):
        super().__init__()
        self.table = tf.ones((1, 300, 6))

    def call(self, inputs):
        shape = tf.shape(inputs)
        return inputs + self.table[:, : shape[-2], : shape[-1]]


def test_a_sequence_is_as_long_as_the_rows_of_a_table():
    inputs = tf.keras.Input((None, 4))
    outputs = Waves()(inputs)
    assert outputs.shape == (None, None, 4)
    found = tf.keras.Model(inputs, outputs).predict(np.zeros((2, 5, 4)), verbose=0)
    np.testing.assert_array_equal(found, np.ones((2, 5, 4)))


class Places(tf.keras.layers.Layer):
    """Adds an embedding of its place to each element of a sequence."""

    def __init__(self):
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(6, 4)

    def call(self, inputs):
        return inputs + self.embedding(tf.range(tf.shape(inputs)[1]))


def test_a_last_axis_that_is_not_known_but_fits_weights():
    inputs = tf.keras.Input((None, None))
    outputs = Places()(inputs)
    assert outputs.shape == (None, None, 4)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(outputs))
    for length in (3, 6):
        assert model.predict(np.ones((2, length, 4)), verbose=0).shape == (2, length, 1)


def test_that_what_is_wrong_with_every_size_is_still_said():
    class Wrong(tf.keras.layers.Layer):
        def call(self, images):
            return tf.matmul(images, tf.ones((5, 2)))

    with pytest.raises(Exception, match=r"Matrix size-incompatible: .* 3\], In\[1\]: \[5, 2\]"):
        Wrong()(tf.keras.Input((None, None, 3)))


def test_a_functional_model_takes_inputs_without_the_last_axes_as_keras_2_does():
    inputs = tf.keras.Input((5, 5))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(3)(inputs))
    assert model(tf.ones((5, 5))).shape == (5, 3)
    assert model(tf.ones((2, 5, 5))).shape == (2, 5, 3)
    with pytest.raises(ValueError, match="expected shape"):
        model(tf.ones((2, 4)))
    summed = tf.keras.Model(inputs, inputs + 2)
    assert float(summed(tf.constant(1.0))) == 3


def test_sizes_may_follow_from_unknown_ones():
    class Ctc(tf.keras.layers.Layer):
        def call(self, labels, logits):
            rows = tf.ones((tf.cast(tf.shape(labels)[0], "int64"), 1), "int64")
            lengths = [tf.cast(tf.shape(each)[1], "int64") * rows for each in (logits, labels)]
            self.add_loss(tf.reduce_mean(tf.keras.backend.ctc_batch_cost(labels, logits, *lengths)))
            return logits

    logits = tf.keras.Input((20, 5))
    assert Ctc()(tf.keras.Input((None,)), logits).shape == (None, 20, 5)


def test_rows_become_groups_and_shapes_have_the_size_of_the_batch():
    class Counting(tf.keras.layers.Layer):
        def call(self, labels, outputs):
            count = tf.keras.ops.cast(tf.keras.ops.shape(labels)[0], "int32")
            return outputs[:, 0] + tf.keras.ops.ones((count, 1))

    rows, labels, outputs = tf.keras.Input((4,)), tf.keras.Input((None,)), tf.keras.Input((5, 1))
    groups, counted = tf.reshape(rows, (-1, 3, 4)), Counting()(labels, outputs)
    assert groups.shape == (None, 3, 4)
    assert counted.shape == (None, 1)
    model = tf.keras.Model([rows, labels, outputs], [groups, counted])
    found = model([np.ones((6, 4)), np.ones((6, 2)), np.ones((6, 5, 1))])
    assert [each.shape for each in found] == [(2, 3, 4), (6, 1)]


def test_the_smaller_of_a_size_and_a_number():
    images = tf.keras.Input((2, 2, 3))
    count = tf.shape(images)[0]
    groups = tf.reshape(images, [tf.minimum(4, count), -1, 2, 2, 3])
    means = tf.reduce_mean(groups, axis=0)
    model = tf.keras.Model(images, [means, tf.tile(means[:1], [tf.maximum(count, 5), 1, 1, 1])])
    found = model.predict(np.arange(96, dtype=np.float32).reshape(8, 2, 2, 3), verbose=0)
    assert [each.shape for each in found] == [(2, 2, 2, 3), (8, 2, 2, 3)]
    assert found[0][0, 0, 0, 0] == 36
