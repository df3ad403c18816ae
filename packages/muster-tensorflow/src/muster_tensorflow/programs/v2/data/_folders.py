"""``tf.keras.utils.image_dataset_from_directory`` and its like, whose datasets are muster's.

Keras makes them with TensorFlow's ``tf.data``.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from muster import keras
from muster.data import AUTOTUNE, Dataset
from muster.extend import local_path
from muster_tensorflow.programs.v2.files._audio import decode_wav
from muster_tensorflow.programs.v2.files._image_files import read_image

_IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
_CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}


class FolderDataset(Dataset):
    """A dataset of files in folders.

    Attributes:
        class_names: The names of the classes, in the order of their numbers; None without labels.
        file_paths: The paths of the files, before they are shuffled.
    """

    class_names: list[str] | None
    file_paths: list[str]


class _Files(NamedTuple):
    """Paths and the numbers of their classes."""

    paths: list[str]
    labels: list[int] | None
    class_names: list[str] | None


def image_dataset_from_directory(
    directory: str | os.PathLike[str],
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    color_mode: str = "rgb",
    batch_size: int | None = 32,
    image_size: tuple[int, int] = (256, 256),
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    interpolation: str = "bilinear",
    follow_links: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    data_format: str | None = None,
    verbose: bool = True,
) -> Any:
    """Make a dataset of the images in a folder that has a folder for each class.

    Args:
        directory: The folder.
        labels: ``"inferred"`` from the names of folders, None, or a list with one for each file, sorted.
        label_mode: ``"int"``, ``"categorical"`` (one-hot), ``"binary"`` (float32, (batch, 1)) or None.
        class_names: The names of the folders, in the order of their numbers; None is sorted.
        color_mode: ``"grayscale"``, ``"rgb"`` or ``"rgba"``.
        batch_size: The number of images in a batch; None for single images.
        image_size: Height and width.
        shuffle: Whether to shuffle files: before they are split, and in each pass.
        seed: Of the shuffles.
        validation_split: The share of files, the last ones, that are for validation.
        subset: With a split: ``"training"``, ``"validation"`` or ``"both"``.
        interpolation: ``"bilinear"`` and ``"nearest"`` are TensorFlow's; others are Pillow's.
        follow_links: Whether to look in folders that links lead to.
        crop_to_aspect_ratio: Whether to cut images to the proportions of `image_size`, in their middle.
        pad_to_aspect_ratio: Whether to add a black border for them.
        data_format: ``"channels_last"`` or ``"channels_first"``; None is Keras' default.
        verbose: Whether to print how many files there are.

    Returns:
        A `FolderDataset` of float32 images, from 0 to 255, and labels; or two in a list for ``"both"``.

    Raises:
        ValueError: Arguments contradict each other or the folder, or there is no image.
        ImportError: Pillow is not installed.

    Source: keras/src/utils/image_dataset_utils.py.
    """
    if color_mode not in _CHANNELS:
        raise ValueError(f"color_mode is one of {[*_CHANNELS]}, got {color_mode!r}.")
    if crop_to_aspect_ratio and pad_to_aspect_ratio:
        raise ValueError("Set crop_to_aspect_ratio or pad_to_aspect_ratio, not both.")
    fit = "crop" if crop_to_aspect_ratio else "pad" if pad_to_aspect_ratio else None
    first = (data_format or keras.config.image_data_format()) == "channels_first"

    height, width = image_size

    def read(path: str) -> np.ndarray[Any, Any]:
        image = read_image(path, _CHANNELS[color_mode], (height, width), interpolation, fit)
        return image.transpose(2, 0, 1) if first else image

    files = _found(directory, _IMAGES, labels, label_mode, class_names, follow_links, verbose)
    return _datasets(files, read, label_mode, batch_size, shuffle, seed, validation_split, subset)


def text_dataset_from_directory(
    directory: str | os.PathLike[str],
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    batch_size: int | None = 32,
    max_length: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    follow_links: bool = False,
    verbose: bool = True,
) -> Any:
    """Make a dataset of the text files (``.txt``) in a folder that has a folder for each class.

    Args:
        directory: The folder.
        labels: As for `image_dataset_from_directory`, as all arguments but one.
        label_mode: See there.
        class_names: See there.
        batch_size: See there.
        max_length: How many bytes of a text to keep; None for all.
        shuffle: See there.
        seed: See there.
        validation_split: See there.
        subset: See there.
        follow_links: See there.
        verbose: See there.

    Returns:
        A `FolderDataset` of ``str`` and labels; or two in a list for ``"both"``.

    Raises:
        ValueError: Arguments contradict each other or the folder, or there is no text.

    Source: keras/src/utils/text_dataset_utils.py.
    """

    def read(path: str) -> str:
        with open(path, "rb") as file:
            return file.read()[:max_length].decode(errors="ignore")

    files = _found(directory, (".txt",), labels, label_mode, class_names, follow_links, verbose)
    return _datasets(files, read, label_mode, batch_size, shuffle, seed, validation_split, subset)


def audio_dataset_from_directory(
    directory: str | os.PathLike[str],
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    batch_size: int | None = 32,
    sampling_rate: int | None = None,
    output_sequence_length: int | None = None,
    ragged: bool = False,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    follow_links: bool = False,
    verbose: bool = True,
) -> Any:
    """Make a dataset of the sound files (``.wav``) in a folder that has a folder for each class.

    Args:
        directory: The folder.
        labels: As for `image_dataset_from_directory`, as all arguments but three.
        label_mode: See there.
        class_names: See there.
        batch_size: See there.
        sampling_rate: Must be None: files keep the rate that they have.
        output_sequence_length: How many samples of a file to keep, filled up by 0; None for all, filled up
            to the longest one of a batch.
        ragged: Whether to return ragged batches rather than to fill up.
        shuffle: See there.
        seed: See there.
        validation_split: See there.
        subset: See there.
        follow_links: See there.
        verbose: See there.

    Returns:
        A `FolderDataset` of float32 of shape (batch, samples, channels) and labels; or two in a list for
        ``"both"``.

    Raises:
        ValueError: Arguments contradict each other or the folder, or there is no sound.

    Source: keras/src/utils/audio_dataset_utils.py.
    """
    if sampling_rate is not None:
        raise ValueError(
            f"sampling_rate={sampling_rate!r} would change the rate of files: do so in Dataset.map, such as "
            "by scipy.signal.resample_poly."
        )
    if ragged and output_sequence_length is not None:
        raise ValueError(
            "Cannot set both ragged and output_sequence_length: ragged batches keep the lengths of files."
        )
    length = -1 if output_sequence_length is None else output_sequence_length

    def read(path: str) -> np.ndarray[Any, Any]:
        with open(path, "rb") as file:
            audio: np.ndarray[Any, Any] = decode_wav(file.read(), desired_samples=length).audio
        return audio

    def batched(dataset: Dataset, size: int) -> Dataset:
        return dataset.ragged_batch(size) if ragged else dataset.padded_batch(size)

    files = _found(directory, (".wav",), labels, label_mode, class_names, follow_links, verbose)
    return _datasets(files, read, label_mode, batch_size, shuffle, seed, validation_split, subset, batched)


def _found(
    directory: str | os.PathLike[str],
    endings: tuple[str, ...],
    labels: Any,
    label_mode: str | None,
    class_names: Sequence[str] | None,
    follow_links: bool,
    verbose: bool,
) -> _Files:
    """Look for files, in the order of their names."""
    root = local_path(directory)
    if label_mode not in ("int", "categorical", "binary", None):
        raise ValueError(f"label_mode is 'int', 'categorical', 'binary' or None, got {label_mode!r}.")
    if labels is None or label_mode is None:
        names, labels = [""], None
    elif isinstance(labels, str):
        if labels != "inferred":
            raise ValueError(f"labels is 'inferred', None or a list of numbers, got {labels!r}.")
        names = sorted(each.name for each in os.scandir(root) if each.is_dir() and each.name[0] != ".")
        if class_names is not None:
            if not set(class_names) <= set(names):
                raise ValueError(f"class_names are {[*class_names]}, and the folders of {root} are {names}.")
            names = [*class_names]
    else:
        names = [""]
    paths, numbers = [], []
    for number, name in enumerate(names):
        for folder, folders, files in os.walk(os.path.join(root, name), followlinks=follow_links):
            folders.sort()
            for file in sorted(files):
                if file.lower().endswith(endings):
                    paths.append(os.path.join(folder, file))
                    numbers.append(number)
    if not paths:
        raise ValueError(f"{root} has no files that end in {', '.join(endings)}, in folders {names}.")
    if labels is None:
        found = _Files(paths, None, None)
    elif isinstance(labels, str):
        found = _Files(paths, numbers, names)
    else:
        given = [int(label) for label in labels]
        if len(given) != len(paths):
            raise ValueError(f"labels has {len(given)} numbers for {len(paths)} files in {root}.")
        found = _Files(paths, given, [str(each) for each in sorted(set(given))])
    if label_mode == "binary" and found.class_names is not None and len(found.class_names) != 2:
        raise ValueError(f"label_mode='binary' is for two classes, and there are {found.class_names}.")
    if verbose:
        classes = "" if found.class_names is None else f" belonging to {len(found.class_names)} classes"
        print(f"Found {len(paths)} files{classes}.")
    return found


def _datasets(
    files: _Files,
    read: Callable[[str], Any],
    label_mode: str | None,
    batch_size: int | None,
    shuffle: bool,
    seed: int | None,
    validation_split: float | None,
    subset: str | None,
    batched: Callable[[Dataset, int], Dataset] = Dataset.batch,
) -> Any:
    """Divide files, and make datasets of them."""
    if bool(validation_split) != (subset is not None):
        raise ValueError(
            f"validation_split and subset belong together, got {validation_split!r} and {subset!r}."
        )
    if subset not in ("training", "validation", "both", None):
        raise ValueError(f"subset is 'training', 'validation' or 'both', got {subset!r}.")
    if validation_split and not 0 < validation_split < 1:
        raise ValueError(f"validation_split is between 0 and 1, got {validation_split!r}.")
    if validation_split and shuffle and seed is None:
        raise ValueError(
            "With validation_split and shuffle=True give a seed, so that no file is in both parts."
        )
    order = np.arange(len(files.paths))
    if shuffle and seed is not None:  # without a seed `Dataset.shuffle` alone does it, alike on all workers
        np.random.RandomState(seed).shuffle(order)  # as Keras 2 does, so that the parts are the same
    kept = len(order) - int((validation_split or 0) * len(order))

    def part(numbers: np.ndarray[Any, Any], shuffled: bool) -> FolderDataset:
        if not len(numbers):
            raise ValueError(
                f"validation_split={validation_split} of {len(order)} files leaves one part empty."
            )
        paths = [files.paths[number] for number in numbers]
        elements: Any = np.array(paths)
        if files.labels is not None and files.class_names is not None:
            labels = np.array(files.labels, np.int32)[numbers]
            elements = (elements, _encoded(labels, label_mode, len(files.class_names)))
        dataset = Dataset.from_tensor_slices(elements)
        if shuffled:
            dataset = dataset.shuffle(len(paths), seed)
        if files.labels is None:
            dataset = dataset.map(read)
        else:
            dataset = dataset.map(lambda path, label: (read(path), label))
        if batch_size is not None:
            dataset = batched(dataset, batch_size)
        made = FolderDataset(dataset.prefetch(AUTOTUNE)._node)
        made.class_names, made.file_paths = files.class_names, paths
        return made

    if subset == "both":
        return [part(order[:kept], shuffle), part(order[kept:], False)]
    return part(order[kept:] if subset == "validation" else order[:kept], shuffle)


def _encoded(labels: np.ndarray[Any, Any], label_mode: str | None, classes: int) -> np.ndarray[Any, Any]:
    if label_mode == "binary":
        return labels.astype(np.float32)[:, None]
    return np.eye(classes, dtype=np.float32)[labels] if label_mode == "categorical" else labels
