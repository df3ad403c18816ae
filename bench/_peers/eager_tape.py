"""TensorFlow's eager tape: prints the milliseconds of a step of the MLP of ``bench/eager_tape.py``."""

import statistics
import time

import numpy as np
import tensorflow as tf

STEPS, TURNS = 30, 10
SHAPES = ((20, 64), (64,), (64, 4), (4,))
generator = np.random.default_rng(0)
x = tf.constant(generator.random((64, 20)), tf.float32)
y = tf.constant(generator.integers(0, 4, 64))
variables = [tf.Variable(0.1 * generator.normal(size=shape), dtype=tf.float32) for shape in SHAPES]


def step():
    with tf.GradientTape() as tape:
        hidden = tf.nn.relu(x @ variables[0] + variables[1])
        logits = hidden @ variables[2] + variables[3]
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
    return loss, tape.gradient(loss, variables)


times = []
for _ in range(TURNS + 1):
    began = time.perf_counter()
    for _ in range(STEPS):
        loss, _gradients = step()
        loss.numpy()
    times.append((time.perf_counter() - began) / STEPS)
print(1e3 * statistics.median(times[1:]))
