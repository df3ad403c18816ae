"""A model that counts how often each example was visited, by gradients; and its input."""

import muster
from muster._keras import keras
from muster.data import Dataset, Options
from muster.estimator import EstimatorSpec

COUNT = 600


class Visits(keras.layers.Layer):
    """Its weight grows by one where an example is visited, by a step of SGD."""

    def build(self, shape):
        self.seen = self.add_weight(shape=(COUNT,), initializer="zeros", name="seen")

    def call(self, ids):
        return keras.ops.sum(keras.ops.take(self.seen, ids))


def model_fn(features, labels, mode):
    loss = -Visits(name="visits")(features)
    train_op = muster.minimize(keras.optimizers.SGD(1.0), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def shared(dataset):
    """The dataset, handed out."""
    options = Options()
    options.experimental_distribute.dispatch = "dynamic"
    return dataset.with_options(options)


def input_fn(epochs=1, known=True):
    numbers = Dataset.range(COUNT) if known else Dataset.range(2 * COUNT).filter(lambda x: x < COUNT)
    return shared(numbers.shuffle(COUNT).repeat(epochs).batch(4))
