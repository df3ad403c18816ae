"""``tensorflow_datasets`` with a few sets of images: ``import muster_tensorflow.datasets as tfds``."""

import functools
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from muster import keras
from muster.data import Dataset, TensorSpec, load_mnist
from muster_tensorflow.library._subword_encoder import SubwordTextEncoder
from muster_tensorflow.library._text_encoders import ByteTextEncoder, TextEncoder, Tokenizer, TokenTextEncoder
from muster_tensorflow.library.ops._eager_values import shown_result
from muster_tensorflow.names._names import missing

__version__ = "4.9.0"  # whose names these are
_DIGITS = tuple(map(str, range(10)))
_CLASSES = {
    "mnist": _DIGITS,
    "fashion_mnist": (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    "cifar10": (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
}
_SLICE = re.compile(r"(\w+)(?:\[\s*(-?\d+)?\s*(%)?\s*:\s*(-?\d+)?\s*(%)?\s*\])?")


class Split(str):
    """The name of a split."""

    TRAIN: "Split"
    TEST: "Split"
    ALL: "Split"


Split.TRAIN, Split.TEST, Split.ALL = Split("train"), Split("test"), Split("all")


class ClassLabel(TensorSpec):
    """The type of a label that is the number of a class.

    Args:
        names: The names of the classes.
    """

    __slots__ = ("names",)

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__((), np.int64)
        self.names = list(names)

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.names)

    def int2str(self, number: int) -> str:
        """Return the name of a class."""
        return self.names[int(number)]

    def str2int(self, name: str) -> int:
        """Return the number of a class."""
        return self.names.index(name)


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


class DatasetBuilder:
    """Reads a data set.

    Args:
        name: ``"mnist"``, ``"fashion_mnist"`` or ``"cifar10"``; a version after a colon is ignored.
        data_dir: The directory of the files of MNIST; None takes the default of `muster.data.load_mnist`. Of
            others Keras chooses the place.

    Raises:
        ValueError: There is no such data set.
    """

    def __init__(self, name: str, data_dir: str | None = None) -> None:
        self.name = name.partition(":")[0].partition("/")[0]
        if self.name not in _CLASSES:
            raise ValueError(
                f"There is no data set {name!r}: only {', '.join(map(repr, _CLASSES))}. Load it yourself and "
                "give its arrays to tf.data.Dataset.from_tensor_slices."
            )
        self._data_dir = data_dir
        self._arrays: dict[str, tuple[Any, Any]] = {}

    def download_and_prepare(self, **options: Any) -> None:
        """Do nothing: `as_dataset` downloads what is missing."""

    def as_dataset(
        self,
        split: Any = None,
        batch_size: int | None = None,
        shuffle_files: bool = False,
        decoders: Any = None,
        read_config: Any = None,
        as_supervised: bool = False,
    ) -> Any:
        """Make datasets, by the arguments of `load`.

        Raises:
            ValueError: There is no such split.
            DownloadError: The download failed; the error says where to put the files by hand.
        """
        if split is None:
            split = {name: name for name in ("train", "test")}
        if isinstance(split, Mapping):
            return {
                name: self.as_dataset(each, batch_size, as_supervised=as_supervised)
                for name, each in split.items()
            }
        if isinstance(split, list | tuple):
            return type(split)(
                self.as_dataset(each, batch_size, as_supervised=as_supervised) for each in split
            )
        images, labels = self._rows(str(split))
        data: Any = (images, labels) if as_supervised else {"image": images, "label": labels}
        if batch_size == -1:
            return shown_result(data)
        dataset = Dataset.from_tensor_slices(data)
        return dataset if batch_size is None else dataset.batch(batch_size)

    @property
    def info(self) -> DatasetInfo:
        """A description of the data set.

        Raises:
            DownloadError: The download of the data failed.
        """
        arrays = {name: self._whole(name) for name in ("train", "test")}
        return DatasetInfo(
            name=self.name,
            features={
                "image": TensorSpec(arrays["train"][0].shape[1:], np.uint8),
                "label": ClassLabel(_CLASSES[self.name]),
            },
            splits=SplitDict((name, SplitInfo(name, len(labels))) for name, (_, labels) in arrays.items()),
            supervised_keys=("image", "label"),
        )

    def _rows(self, split: str) -> tuple[Any, Any]:
        """Return images and labels of a split, of a slice of one, or of several with ``+`` in between."""
        parts = []
        for text in split.split("+"):
            found = _SLICE.fullmatch(text.strip())
            if found is None or found[1] not in ("train", "test", "all"):
                raise ValueError(
                    f"There is no split {text.strip()!r}: splits are 'train', 'test' and 'all', slices of "
                    "them such as 'train[:80%]' and 'test[100:]', and several with + in between."
                )
            name, start, of_start, stop, of_stop = found.groups()
            for each in ("train", "test") if name == "all" else (name,):
                images, labels = self._whole(each)
                rows = slice(_place(start, of_start, len(labels)), _place(stop, of_stop, len(labels)))
                parts.append((images[rows], labels[rows]))
        if len(parts) == 1:
            return parts[0]
        images, labels = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return images, labels

    def _whole(self, split: str) -> tuple[Any, Any]:
        if not self._arrays and self.name != "mnist":
            both = getattr(keras.datasets, self.name).load_data()
            for name, (images, labels) in zip(("train", "test"), both, strict=True):
                images = images[..., None] if images.ndim == 3 else images
                self._arrays[name] = (images, labels.ravel().astype(np.int64))
        if split not in self._arrays:
            self._arrays[split] = load_mnist(split, self._data_dir)
        return self._arrays[split]


def _place(number: str | None, percent: str | None, rows: int) -> int | None:
    """Return a bound of a slice; per cents are rounded, as TensorFlow Datasets does by default."""
    if number is None:
        return None
    return round(int(number) * rows / 100) if percent else int(number)


def builder(
    name: str, *, data_dir: str | None = None, try_gcs: bool = False, **options: Any
) -> DatasetBuilder:
    """Return what reads a data set.

    Args:
        name: The name of the data set.
        data_dir: The directory of its files.
        try_gcs: Unused.
        **options: Unused.

    Raises:
        ValueError: There is no such data set.
    """
    return DatasetBuilder(name, data_dir)


def load(
    name: str,
    *,
    split: Any = None,
    data_dir: str | None = None,
    batch_size: int | None = None,
    shuffle_files: bool = False,
    download: bool = True,
    as_supervised: bool = False,
    decoders: Any = None,
    read_config: Any = None,
    with_info: bool = False,
    builder_kwargs: Any = None,
    download_and_prepare_kwargs: Any = None,
    as_dataset_kwargs: Any = None,
    try_gcs: bool = False,
) -> Any:
    """Load a data set; download it first if needed.

    Args:
        name: ``"mnist"``, ``"fashion_mnist"`` or ``"cifar10"``.
        split: ``"train"``, ``"test"``, ``"all"``, a slice such as ``"train[:80%]"``, several with ``+`` in
            between; a list or dict of them; None for a dict of both.
        data_dir: The directory of the files of MNIST; None takes the default of `muster.data.load_mnist`.
        batch_size: The number of examples in a batch; None for single examples; -1 for tensors of all.
        shuffle_files: Unused, since there is one file.
        download: Unused; missing files are always downloaded.
        as_supervised: Whether an example is a pair ``(image, label)`` rather than a dict.
        decoders: Unused, as the next.
        read_config: Unused.
        with_info: Whether to return a `DatasetInfo`, too.
        builder_kwargs: Unused, as the next three.
        download_and_prepare_kwargs: Unused.
        as_dataset_kwargs: Unused.
        try_gcs: Unused.

    Returns:
        A Dataset, or a list or dict of them; images are uint8 of shape (28, 28, 1), of CIFAR (32, 32, 3),
        labels int64 of shape ().

    Raises:
        ValueError: There is no such data set or split.
        DownloadError: The download failed; the error says where to put the files by hand.
    """
    made = DatasetBuilder(name, data_dir)
    loaded = made.as_dataset(split, batch_size, as_supervised=as_supervised)
    return (loaded, made.info) if with_info else loaded


def as_numpy(dataset: Any) -> Any:
    """Return NumPy values of datasets: an iterable of the elements of each. Arrays stay as they are."""
    if isinstance(dataset, Dataset):
        return _Elements(dataset)
    if isinstance(dataset, Mapping):
        return {name: as_numpy(each) for name, each in dataset.items()}
    if isinstance(dataset, list | tuple):
        return type(dataset)(map(as_numpy, dataset))
    return np.asarray(dataset)


@dataclass(frozen=True)
class _Elements:
    """The elements of a dataset, anew for each pass."""

    dataset: Dataset

    def __iter__(self) -> Iterator[Any]:
        return self.dataset.as_numpy_iterator()

    def __len__(self) -> int:
        return len(self.dataset)


def list_builders() -> list[str]:
    """Return the names of the data sets."""
    return sorted(_CLASSES)


def disable_progress_bar() -> None:
    """Accept the call and do nothing: downloads show a bar on terminals only."""


def _missing(module: str, name: str) -> Any:
    raise missing(module, name)


def _module(path: str, **names: object) -> ModuleType:
    """Make a module below this one, which can be imported, too."""
    made = ModuleType(f"{__name__}.{path}", f"``tfds.{path}``.")
    vars(made).update(names, __getattr__=functools.partial(_missing, f"tfds.{path}"))
    sys.modules[made.__name__] = made
    return made


# Before version 4 the encoders of text were in tfds.features.
_encoders = {
    each.__name__: each
    for each in (ByteTextEncoder, SubwordTextEncoder, TextEncoder, TokenTextEncoder, Tokenizer)
}
features = _module("features", ClassLabel=ClassLabel, text=_module("features.text", **_encoders))
deprecated = _module("deprecated", text=_module("deprecated.text", **_encoders))

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing("tfds", name)
