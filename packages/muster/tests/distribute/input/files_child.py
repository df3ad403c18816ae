"""One worker of a loop over TFRecord files. Run by test_files_multiprocess.py.

Argument: JSON: pattern (of the files), policy, report (where to write what the steps saw).
"""

import json
import logging
import sys
from pathlib import Path

import numpy as np

from muster import keras
from muster.data import (
    AutoShardPolicy,
    Dataset,
    FixedLenFeature,
    Options,
    TFRecordDataset,
    parse_single_example,
)
from muster.distribute import MultiWorkerMirroredStrategy


def parse(record):
    features = {"number": FixedLenFeature([], np.int64)}
    return parse_single_example(record, features)["number"].astype(np.int32)


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    strategy = MultiWorkerMirroredStrategy()
    files = Dataset.list_files(options["pattern"])
    data = files.interleave(TFRecordDataset, cycle_length=2).map(parse).shuffle(20).batch(6)
    policy = Options()
    policy.experimental_distribute.auto_shard_policy = AutoShardPolicy[options["policy"]]
    sums, rows = [], []
    for batch in strategy.experimental_distribute_dataset(data.with_options(policy)):
        sums.append(
            int(strategy.reduce("SUM", strategy.run(lambda x: keras.ops.sum(x), (batch,)), axis=None))
        )
        rows.append(np.asarray(strategy.gather(batch, axis=0)).tolist())
    Path(options["report"]).write_text(json.dumps([sums, rows]))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
