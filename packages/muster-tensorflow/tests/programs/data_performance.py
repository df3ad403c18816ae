"""Compare ways to read artificial data: prefetched, interleaved, mapped in parallel, cached, vectorised."""

import itertools
import time
from collections import defaultdict

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(7)


class ArtificialDataset(tf.data.Dataset):
    reads = 0

    def _generator(num_samples):
        ArtificialDataset.reads += 1
        for sample_idx in range(num_samples):
            yield (sample_idx,)

    def __new__(cls, num_samples=3):
        return tf.data.Dataset.from_generator(
            cls._generator, output_signature=tf.TensorSpec(shape=(1,), dtype=tf.int64), args=(num_samples,)
        )


def benchmark(dataset, num_epochs=2):
    start_time = time.perf_counter()
    total = 0
    for _ in range(num_epochs):
        for sample in dataset:
            total += int(np.sum(sample))
    print("Execution time:", time.perf_counter() - start_time)
    return total


ArtificialDataset()
assert benchmark(ArtificialDataset()) == 6
assert benchmark(ArtificialDataset().prefetch(tf.data.AUTOTUNE)) == 6
assert benchmark(tf.data.Dataset.range(2).interleave(lambda _: ArtificialDataset())) == 12
assert (
    benchmark(
        tf.data.Dataset.range(2).interleave(
            lambda _: ArtificialDataset(), num_parallel_calls=tf.data.AUTOTUNE
        )
    )
    == 12
)


def mapped_function(s):
    tf.py_function(lambda: None, [], ())
    return s


assert benchmark(ArtificialDataset().map(mapped_function)) == 6
assert benchmark(ArtificialDataset().map(mapped_function, num_parallel_calls=tf.data.AUTOTUNE)) == 6

cached = ArtificialDataset().map(mapped_function).cache()
before = ArtificialDataset.reads
assert benchmark(cached, 5) == 15
assert ArtificialDataset.reads == before + 1

fast_dataset = tf.data.Dataset.range(10000)


def increment(x):
    return x + 1


scalar = [int(batch[0]) for batch in fast_dataset.map(increment).batch(256)]
vectorised = [int(batch[0]) for batch in fast_dataset.batch(256).map(increment)]
assert scalar == vectorised == list(range(1, 10001, 256))

# What happens when: a pipeline that tells when its steps were taken.
events = defaultdict(list)


def timed(name):
    def note(x):
        events[name].append(time.perf_counter())
        return x

    return lambda x: tf.numpy_function(note, [x], tf.int64)


pipeline = (
    tf.data.Dataset.range(8)
    .map(timed("read"), num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    .batch(4, num_parallel_calls=2)
    .map(timed("map"))
    .prefetch(2)
)
options = tf.data.Options()
options.deterministic = True
pipeline = pipeline.with_options(options)
batches = list(itertools.chain(pipeline.as_numpy_iterator()))
assert np.concatenate(batches).tolist() == list(range(8))
assert len(events["read"]) == 8
assert len(events["map"]) == 2

model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)])
model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
points = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
train = (
    tf.data.Dataset.from_tensor_slices((points, 3 * points + 1))
    .cache()
    .shuffle(64)
    .repeat(20)
    .batch(16)
    .prefetch(tf.data.AUTOTUNE)
)
model.fit(train, verbose=0)
kernel, bias = (np.asarray(weight).ravel()[0] for weight in model.get_weights())
assert abs(kernel - 3) < 0.3
assert abs(bias - 1) < 0.1
print("ok")
