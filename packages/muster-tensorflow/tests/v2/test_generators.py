"""``tf.random.Generator`` in functions and in the code of replicas, as TensorFlow's guide has it."""

import numpy as np
import pytest

import muster_tensorflow as tf


@pytest.fixture(params=[1, 2])
def strategy(request):
    return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(request.param)])


def test_functions_take_generators():
    @tf.function
    def draw(generator):
        return generator.normal([2])

    one, other = tf.random.Generator.from_seed(1), tf.random.Generator.from_seed(1)
    drawn = [draw(one), draw(other), draw(one)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def test_replicas_make_generators(strategy):
    def draw():
        generator = tf.random.Generator.from_seed(1)
        first, second = generator.split(2)
        return tf.stack([generator.normal([]), generator.normal([]), first.uniform([]), second.uniform([])])

    results = [strategy.run(draw) for _ in range(2)]
    found = [each for result in results for each in strategy.experimental_local_results(result)]
    outside = tf.random.Generator.from_seed(1)
    outside.split(2)
    wanted = [float(outside.normal([])), float(outside.normal([]))]
    for each in found:
        np.testing.assert_array_equal(each, found[0])
        np.testing.assert_allclose(each[:2], wanted, rtol=1e-6)
    assert len(set(np.asarray(found[0]).tolist())) == 4


def test_a_generator_is_an_argument_of_run(strategy):
    with strategy.scope():
        generator = tf.random.Generator.from_seed(2)

    def draw(source):
        return source.normal([])

    results = [strategy.run(draw, args=(generator,)) for _ in range(2)]
    found = [float(each) for result in results for each in strategy.experimental_local_results(result)]
    assert len(set(found)) == len(found)


def test_a_function_keeps_the_generator_that_it_has_made():
    class Drawing:
        generator = None

        @tf.function
        def draw(self):
            if self.generator is None:
                self.generator = tf.random.Generator.from_seed(3)
            return self.generator.normal([])

    drawing = Drawing()
    assert float(drawing.draw()) != float(drawing.draw())

    @tf.function
    def anew():
        return tf.random.Generator.from_seed(3).normal([])

    assert float(anew()) == float(anew())
