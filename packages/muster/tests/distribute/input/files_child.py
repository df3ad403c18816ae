"""One worker of a loop over TFRecord files. Run by test_files_multiprocess.py.

Argument: JSON: pattern (of the files), policy, report (where to write what the steps saw).
"""

import json
import logging
import sys
from pathlib import Path

import numpy as np

import muster_tensorflow as tf


def parse(record):
    features = {"number": tf.io.FixedLenFeature([], tf.int64)}
    return tf.cast(tf.io.parse_single_example(record, features)["number"], tf.int32)


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    files = tf.data.Dataset.list_files(options["pattern"])
    data = files.interleave(tf.data.TFRecordDataset, cycle_length=2).map(parse).shuffle(20).batch(6)
    policy = tf.data.Options()
    policy.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[options["policy"]]
    sums, rows = [], []
    for batch in strategy.experimental_distribute_dataset(data.with_options(policy)):
        sums.append(
            int(strategy.reduce("SUM", strategy.run(lambda x: tf.reduce_sum(x), (batch,)), axis=None))
        )
        rows.append(np.asarray(strategy.gather(batch, axis=0)).tolist())
    Path(options["report"]).write_text(json.dumps([sums, rows]))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
