"""Read lines of text by ``map``, with muster or TensorFlow, for some seconds.

The arguments are ``muster`` or ``tensorflow``, ``csv`` or ``libsvm``, the file, the seconds, and the number
of cores, 0 for all. The program prints a line of JSON: rows a second, and sums of the first batches.
"""

import itertools
import json
import os
import sys
import time

from bench.cases.lines import BATCH, read

CHECKED = 20


def main():
    """Check and measure."""
    library, kind, path, seconds, cores = *sys.argv[1:4], float(sys.argv[4]), int(sys.argv[5])
    if cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    if library == "muster":
        import muster_tensorflow as tf
    else:
        import tensorflow as tf
    batches = iter(read(tf, kind, path))
    sums = [0.0, 0.0]
    for features, labels in itertools.islice(batches, CHECKED):
        numbers = [each for each in features.values() if each.dtype in (tf.float32, tf.int32)]
        sums[0] += float(sum(each.numpy().astype("float64").sum() for each in numbers))
        sums[1] += float(labels.numpy().sum())
    count, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        for _ in range(5):
            next(batches)
        count += 5
    print(json.dumps({"rows_per_second": count * BATCH / elapsed, "sums": [round(each, 3) for each in sums]}))


if __name__ == "__main__":
    main()
