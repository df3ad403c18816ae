"""What models of clicks read: lines of CSV of 13 numbers and 26 texts, of libsvm of 39 features, and records.

The records are Examples with the numbers and texts of the lines of CSV, a feature each.
"""

from pathlib import Path
from typing import Any

import numpy as np

BATCH = 256
_ROWS = 20_000
_NUMBERS, _TEXTS = 13, 26


def write_lines(kind: str, path: Path) -> None:
    """Write a file of one of the kinds, ``csv``, ``libsvm`` and ``records``."""
    if kind == "records":
        return _write_records(path)
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        for _ in range(_ROWS):
            label = str(rng.integers(2))
            if kind == "csv":
                numbers = [f"{value:.3f}" for value in rng.normal(size=_NUMBERS)]
                texts = [f"{value:08x}" for value in rng.integers(2**32, size=_TEXTS)]
                file.write(",".join([label, *numbers, *texts]) + "\n")
            else:
                pairs = zip(rng.integers(100, size=39), rng.random(39), strict=True)
                features = [
                    f"{place * 100 + value}:{weight:.4f}" for place, (value, weight) in enumerate(pairs)
                ]
                file.write(" ".join([label, *features]) + "\n")


def _write_records(path: Path) -> None:
    from muster import data  # in the process that writes alone: TensorFlow reads where muster is not

    rng = np.random.default_rng(0)
    with data.TFRecordWriter(path) as out:
        for _ in range(_ROWS):
            feature = {
                f"I{i}": data.FloatList(value=[value]) for i, value in enumerate(rng.normal(size=_NUMBERS))
            }
            feature = {name: data.Feature(float_list=value) for name, value in feature.items()}
            for i, value in enumerate(rng.integers(2**32, size=_TEXTS)):
                feature[f"C{i}"] = data.Feature(bytes_list=data.BytesList(value=[b"%x" % value]))
            feature["label"] = data.Feature(int64_list=data.Int64List(value=[int(rng.integers(2))]))
            out.write(data.Example(features=data.Features(feature=feature)).SerializeToString())


def read(tf: Any, kind: str, path: str) -> Any:
    """Return a dataset of batches, by a function that programs have.

    Of records, ``records`` parses one at a time, and ``batches`` 256 at a time.
    """
    if kind in ("records", "batches"):
        return _records(tf, kind, tf.data.TFRecordDataset(path))
    lines = tf.data.TextLineDataset(path)
    dataset = lines.map(_csv(tf) if kind == "csv" else _libsvm(tf))
    return dataset.repeat().batch(BATCH).prefetch(2)


def _csv(tf: Any) -> Any:
    names = [f"I{i}" for i in range(_NUMBERS)] + [f"C{i}" for i in range(_TEXTS)]

    def parse(line: Any) -> Any:
        columns = tf.io.decode_csv(line, [[0]] + [[0.0]] * _NUMBERS + [[""]] * _TEXTS)
        return dict(zip(names, columns[1:], strict=True)), columns[0]

    return parse


def _libsvm(tf: Any) -> Any:
    v1 = tf.compat.v1

    def parse(line: Any) -> Any:
        columns = v1.string_split([line], " ")
        label = v1.string_to_number(columns.values[0], out_type=tf.float32)
        splits = v1.string_split(columns.values[1:], ":")
        pairs = tf.reshape(splits.values, splits.dense_shape)
        ids, values = tf.split(pairs, num_or_size_splits=2, axis=1)
        ids = v1.string_to_number(ids, out_type=tf.int32)
        return {"ids": ids, "values": v1.string_to_number(values, out_type=tf.float32)}, label

    return parse


def _records(tf: Any, kind: str, records: Any) -> Any:
    features = {f"I{i}": tf.io.FixedLenFeature([], tf.float32) for i in range(_NUMBERS)}
    features |= {f"C{i}": tf.io.FixedLenFeature([], tf.string) for i in range(_TEXTS)}
    features["label"] = tf.io.FixedLenFeature([], tf.int64)
    parse = tf.io.parse_single_example if kind == "records" else tf.io.parse_example

    def parsed(serialized: Any) -> Any:
        found = parse(serialized, features)
        label = found.pop("label")
        return found, label

    if kind == "records":
        return records.map(parsed).repeat().batch(BATCH).prefetch(2)
    return records.repeat().batch(BATCH).map(parsed).prefetch(2)
