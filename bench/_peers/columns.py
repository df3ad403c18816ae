"""Read a CSV file and make ids of its categorical columns, with muster or TensorFlow, for some seconds.

The arguments are ``muster`` or ``tensorflow``, the file, the seconds, and the number of cores, 0 for all. The
program prints a line of JSON: rows a second, and the sum of each column's ids in the first batches.
"""

import itertools
import json
import os
import sys
import time

CHECKED = 20
BATCH = 256
CITIES = 100_000
JOBS = ["clerk", "cook", "driver", "farmer", "nurse", "sailor", "teacher", "tailor", "writer", "none"]
SCHOOLS = [f"{i}th" for i in range(1, 13)] + ["Bachelors", "Masters", "Doctorate", "Some-college"]
STATES = ["Private", "Self-emp", "Federal-gov", "Local-gov", "State-gov", "Without-pay"]


def columns_of(fc):
    """Return the columns of the model: vocabularies, hash buckets, buckets of numbers, and crosses."""
    age = fc.bucketized_column(fc.numeric_column("age"), [18, 25, 30, 35, 40, 45, 50, 55, 60, 65])
    job = fc.categorical_column_with_vocabulary_list("job", JOBS)
    school = fc.categorical_column_with_vocabulary_list("school", SCHOOLS, num_oov_buckets=2)
    return [
        job,
        school,
        fc.categorical_column_with_vocabulary_list("state", STATES),
        fc.categorical_column_with_hash_bucket("city", CITIES),
        fc.categorical_column_with_identity("hours", 100, default_value=99),
        fc.crossed_column(["school", "job"], 10_000),
        fc.crossed_column([age, "school", "job"], 100_000),
    ]


def read(tf, path):
    """Return the batches of the file, without end."""
    defaults = [tf.float32, tf.string, tf.string, tf.string, tf.string, tf.int64, tf.float32, tf.int32]
    return tf.data.experimental.make_csv_dataset(
        path, BATCH, column_defaults=defaults, label_name="label", shuffle=False, prefetch_buffer_size=4
    )


def muster_batches(path):
    """Yield the ids of each batch, by column."""
    import muster.compat.tensorflow as tf
    from muster.feature_column import transform_features

    columns = columns_of(tf.feature_column)
    dataset = read(tf, path).map(lambda features, labels: transform_features(features, columns))
    for features in dataset:
        yield [features[column.host_key] for column in columns]


def tensorflow_batches(path):
    """Yield the ids of each batch, by column, from a graph, as Estimators compute them."""
    import tensorflow as tf
    from tensorflow.python.feature_column.feature_column_v2 import FeatureTransformationCache

    columns = columns_of(tf.feature_column)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        iterator = tf.compat.v1.data.make_initializable_iterator(read(tf, path))
        features, _ = iterator.get_next()
        cache = FeatureTransformationCache(features)
        ids = [column.get_sparse_tensors(cache, None).id_tensor.values for column in columns]
        session.run([iterator.initializer, tf.compat.v1.tables_initializer()])
        step = session.make_callable(ids)
        while True:
            yield step()


def main():
    """Check and measure."""
    library, path, seconds, cores = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    if cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    batches = {"muster": muster_batches, "tensorflow": tensorflow_batches}[library](path)
    sums = [0] * 7
    for batch in itertools.islice(batches, CHECKED):
        sums = [total + int(ids[ids >= 0].sum()) for total, ids in zip(sums, batch, strict=True)]
    count, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        for _ in range(10):
            next(batches)
        count += 10
    print(json.dumps({"rows_per_second": count * BATCH / elapsed, "sums": sums}))


if __name__ == "__main__":
    main()
