"""``tf.examples.tutorials.mnist.input_data``: MNIST in arrays, with batches from them.

Source: tensorflow/examples/tutorials/mnist/input_data.py, and
tensorflow/contrib/learn/python/learn/datasets/mnist.py.
"""

from typing import Any, NamedTuple

import numpy as np

from muster.data import load_mnist


class DataSet:
    """Images and labels, in batches.

    Args:
        images: Float, of shape (examples, 784) or (examples, 28, 28, 1).
        labels: One-hot or integers.
        seed: Of the order of the examples; None for another one each time.

    Attributes:
        images: The images.
        labels: The labels.
        epochs_completed: How often all examples have been in a batch.
    """

    def __init__(
        self, images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], seed: int | None = None
    ) -> None:
        self.images = images
        self.labels = labels
        self.epochs_completed = 0
        self._random = np.random.default_rng(seed)
        self._order = np.arange(len(images))
        self._place: int | None = None

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return len(self.images)

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the images and labels of the next examples, which go on with a new order at the end."""
        chosen: list[int] = []
        while len(chosen) < batch_size:
            if self._place is None or self._place == len(self._order):
                self.epochs_completed += self._place is not None
                self._order = (
                    self._random.permutation(len(self.images)) if shuffle else np.arange(len(self.images))
                )
                self._place = 0
            taken = self._order[self._place : self._place + batch_size - len(chosen)]
            chosen += taken.tolist()
            self._place += len(taken)
        return self.images[chosen], self.labels[chosen]


class Datasets(NamedTuple):
    """The parts of MNIST."""

    train: DataSet
    validation: DataSet
    test: DataSet


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = np.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str | None = None,
) -> Datasets:
    """Load MNIST, as `muster.data.load_mnist` does.

    Args:
        train_dir: The folder of the files, which are downloaded if they are not there.
        fake_data: Only False.
        one_hot: Whether labels are vectors, rather than integers.
        dtype: Float for numbers up to 1, or uint8 for numbers up to 255.
        reshape: Whether images are vectors of 784 numbers.
        validation_size: How many of the examples for training are for validation.
        seed: Of the order of the examples.
        source_url: Unused.

    Raises:
        ValueError: Data is to be fake, or the validation is larger than the data.
        DownloadError: The download failed; says where to put the files by hand.
    """
    if fake_data:
        raise ValueError("read_data_sets makes no fake data: leave fake_data out.")
    train, test = (
        _converted(*load_mnist(split, train_dir), one_hot, dtype, reshape) for split in ("train", "test")
    )
    if not 0 <= validation_size <= len(train[0]):
        raise ValueError(
            f"Validation size should be between 0 and {len(train[0])}. Received: {validation_size}."
        )
    images, labels = train
    return Datasets(
        DataSet(images[validation_size:], labels[validation_size:], seed),
        DataSet(images[:validation_size], labels[:validation_size], seed),
        DataSet(*test, seed),
    )


def _converted(images: Any, labels: Any, one_hot: bool, dtype: Any, reshape: bool) -> tuple[Any, Any]:
    if reshape:
        images = images.reshape(len(images), -1)
    if np.dtype(dtype).kind == "f":
        images = images.astype(dtype) / np.dtype(dtype).type(255)
    return images, np.eye(10)[labels] if one_hot else labels.astype(np.uint8)
