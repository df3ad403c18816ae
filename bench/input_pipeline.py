"""Measure how many batches of 64 MNIST-like images the input pipeline delivers per second.

A training step of 5 ms consumes 200 batches a second.
"""

import argparse
import time
from typing import Any

import numpy as np

from bench import _results
from muster.data import AUTOTUNE, Dataset

_IMAGES = 60_000
_BATCH = 64


def batches_per_second(dataset: Dataset, seconds: float) -> float:
    """Read `dataset` for about `seconds`, after its first 20 batches."""
    with dataset.iterator() as iterator:
        for _ in range(20):
            next(iterator)
        count = 0
        begin = time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < seconds:
            for _ in range(10):
                next(iterator)
            count += 10
    return count / elapsed


def scale(image: Any, label: Any) -> Any:
    """Scale as the guide does; JAX can trace it."""
    return image.astype(np.float32) / 255, label


def scale_in_python(image: Any, label: Any) -> Any:
    """Scale with NumPy, which JAX cannot trace."""
    return np.asarray(image, np.float32) / np.float32(255), label


def pipelines() -> dict[str, Dataset]:
    """Return the pipelines to measure, by name."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (_IMAGES, 28, 28, 1), dtype=np.uint8)
    labels = random.integers(0, 10, _IMAGES)
    source = Dataset.from_tensor_slices((images, labels))

    def rows() -> Any:
        return zip(images, labels, strict=True)

    def train(dataset: Dataset, buffer_size: int = _IMAGES) -> Dataset:
        return dataset.shuffle(buffer_size).batch(_BATCH).repeat()

    return {
        "gather: shuffle, batch, repeat": train(source),
        "gather, shuffle buffer of 1,000": train(source, 1000),
        "gather, prefetch": train(source).prefetch(AUTOTUNE),
        "map (traced), shuffle, batch": train(source.map(scale)),
        "map (traced), shuffle, batch, prefetch": train(source.map(scale)).prefetch(AUTOTUNE),
        "guide: map, shard, cache, shuffle, batch": train(source.map(scale).shard(2, 0).cache(), 10_000),
        "map (Python), shuffle, batch": train(source.map(scale_in_python)),
        "generator, map (traced), batch": Dataset.from_generator(
            rows, output_types=(np.uint8, np.int64), output_shapes=((28, 28, 1), ())
        )
        .map(scale)
        .batch(_BATCH)
        .repeat(),
    }


def main() -> dict[str, float]:
    """Print and return the batches per second of each pipeline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.5, help="how long to read each pipeline")
    seconds = parser.parse_args().seconds
    speeds = {}
    for name, dataset in pipelines().items():
        speeds[name] = batches_per_second(dataset, seconds)
        print(f"{name:45} {speeds[name]:10,.0f} batches/s", flush=True)
    return speeds


if __name__ == "__main__":
    _results.write("input_pipeline", {"batches_per_sec": main()})
