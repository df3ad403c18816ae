"""``tensorflow_datasets`` with MNIST only: ``import muster.compat.tensorflow_datasets as tfds``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.compat._names import missing
from muster.data import Dataset, TensorSpec, load_mnist

_SPLITS = ("train", "test")


@dataclass(frozen=True)
class SplitInfo:
    """A split of a data set, such as the training examples.

    Attributes:
        name: ``"train"`` or ``"test"``.
        num_examples: The number of its examples.
    """

    name: str
    num_examples: int


class SplitDict(dict[str, SplitInfo]):
    """The splits of a data set by name."""

    @property
    def total_num_examples(self) -> int:
        """The number of examples in all splits."""
        return sum(split.num_examples for split in self.values())


@dataclass(frozen=True)
class DatasetInfo:
    """A description of a data set.

    Attributes:
        name: Its name, such as ``"mnist"``.
        features: The shape and dtype of each feature of an example, by name.
        splits: Its splits, by name.
        supervised_keys: The names of the features that ``as_supervised`` pairs: the input and the label.
    """

    name: str
    features: Mapping[str, TensorSpec]
    splits: SplitDict
    supervised_keys: tuple[str, str]


def load(
    name: str,
    *,
    split: str | None = None,
    data_dir: str | None = None,
    batch_size: int | None = None,
    shuffle_files: bool = False,
    download: bool = True,
    as_supervised: bool = False,
    with_info: bool = False,
    try_gcs: bool = False,
) -> Any:
    """Load a data set; download it first if needed.

    Args:
        name: Only ``"mnist"``.
        split: ``"train"`` or ``"test"``; None for a dict of both.
        data_dir: The directory of the files; None takes the default of `muster.data.load_mnist`.
        batch_size: The number of examples in a batch; None for single examples.
        shuffle_files: Unused, since there is one file.
        download: Unused; missing files are always downloaded.
        as_supervised: Whether an example is a pair ``(image, label)`` rather than a dict.
        with_info: Whether to return a `DatasetInfo`, too.
        try_gcs: Unused.

    Returns:
        A Dataset or a dict of them; images are uint8 of shape (28, 28, 1), labels int64 of shape ().

    Raises:
        ValueError: There is no such data set or split.
        DownloadError: The download failed; the error says where to put the files by hand.
    """
    if name != "mnist":
        raise ValueError(
            f"There is no data set {name!r}: only 'mnist'. Load it yourself and give its arrays to "
            "tf.data.Dataset.from_tensor_slices."
        )
    if split not in (None, *_SPLITS):
        raise ValueError(f"The split must be one of {_SPLITS}, or None for a dict of both; got {split!r}.")
    arrays = {each: load_mnist(each, data_dir) for each in _SPLITS if with_info or split in (None, each)}
    datasets = {
        each: Dataset.from_tensor_slices(
            (images, labels) if as_supervised else {"image": images, "label": labels}
        )
        for each, (images, labels) in arrays.items()
    }
    if batch_size is not None:
        datasets = {each: dataset.batch(batch_size) for each, dataset in datasets.items()}
    loaded = datasets if split is None else datasets[split]
    if not with_info:
        return loaded
    info = DatasetInfo(
        name=name,
        features={"image": TensorSpec((28, 28, 1), "uint8"), "label": TensorSpec((), "int64")},
        splits=SplitDict((each, SplitInfo(each, len(labels))) for each, (_, labels) in arrays.items()),
        supervised_keys=("image", "label"),
    )
    return loaded, info


def disable_progress_bar() -> None:
    """Accept the call and do nothing: downloads show a bar on terminals only."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing("tfds", name)
