"""Read a CSV file and make ids of its categorical columns, with muster or TensorFlow, for some seconds.

The arguments are ``muster`` or ``tensorflow``, the file, the seconds, and the number of cores, 0 for all. The
program prints a line of JSON: rows a second, and the sum of each column's ids in the first batches.
"""

import itertools
import json
import os
import sys
import time

from bench.cases.adult import BATCH, categorical_columns, read

CHECKED = 20


def muster_batches(path):
    """Yield the ids of each batch, by column."""
    import muster_tensorflow as tf
    from muster.feature_column import transform_features

    columns = categorical_columns(tf.feature_column)
    dataset = read(tf, path).map(lambda features, labels: transform_features(features, columns))
    for features in dataset:
        yield [features[column.host_key] for column in columns]


def tensorflow_batches(path):
    """Yield the ids of each batch, by column, from a graph, as Estimators compute them."""
    import tensorflow as tf
    from tensorflow.python.feature_column.feature_column_v2 import FeatureTransformationCache

    columns = categorical_columns(tf.feature_column)
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
