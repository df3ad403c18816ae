"""Lines of text as models of clicks read them: CSV of 13 numbers and 26 texts, and libsvm of 39 features."""

from pathlib import Path
from typing import Any

import numpy as np

BATCH = 256
_ROWS = 20_000
_NUMBERS, _TEXTS = 13, 26


def write_lines(kind: str, path: Path) -> None:
    """Write a file of one of the kinds, ``csv`` and ``libsvm``."""
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


def read(tf: Any, kind: str, path: str) -> Any:
    """Return a dataset of batches, by a function that programs have."""
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
