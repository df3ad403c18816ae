"""The MNIST digits, from disk or from the network."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from muster._errors import DatasetError, DownloadError
from muster._paths import local_path
from muster.data.files._download import fetch, md5
from muster.data.files._idx import read_idx

_log = logging.getLogger(__name__)

MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)

# Name and MD5 of the images and of the labels.
_FILES = {
    "train": (
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
    ),
    "test": (
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ),
}


def load_mnist(
    split: str,
    data_dir: str | os.PathLike[str] | None = None,
    mirrors: Sequence[str] = MNIST_MIRRORS,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Load a split of MNIST; download its files if they do not exist.

    An existing file is never replaced: a valid idx file that differs from the original, such as one with
    fewer examples, is used, with a warning in the log.

    Args:
        split: ``train`` (60,000 examples) or ``test`` (10,000).
        data_dir: Folder that holds the files, or whose subfolder ``mnist`` does. By default
            ``MUSTER_DATA_DIR``, or else ``muster`` in the user's cache folder.
        mirrors: URLs to download from, tried in turn.

    Returns:
        Images, uint8 of shape (n, 28, 28, 1), and labels, int64 of shape (n,).

    Raises:
        ValueError: There is no such split.
        DownloadError: The download failed; says where to put the files by hand.
        DatasetError: A file is damaged, or images and labels do not match.
    """
    if split not in _FILES:
        raise ValueError(f"MNIST has the splits {list(_FILES)}, got {split!r}.")
    root = _default_dir() if data_dir is None else Path(local_path(data_dir))
    images, labels = (_load(name, checksum, root, mirrors) for name, checksum in _FILES[split])
    if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
        raise DatasetError(
            f"the MNIST files in {root} do not belong together: images of shape {images.shape}, labels of "
            f"shape {labels.shape}. Remove them to have them fetched again."
        )
    return images[..., np.newaxis], labels.astype(np.int64)


def _default_dir() -> Path:
    if folder := os.environ.get("MUSTER_DATA_DIR"):
        return Path(local_path(folder))
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "muster"


def _load(name: str, checksum: str, root: Path, mirrors: Sequence[str]) -> np.ndarray[Any, Any]:
    folder = root if (root / name).exists() else root / "mnist"
    path = folder / name
    if not path.exists():
        try:
            fetch(name, folder, checksum, mirrors)
        except OSError as exc:
            names = ", ".join(file for files in _FILES.values() for file, _ in files)
            raise DownloadError(
                f"cannot fetch {name}: {exc}. Without a network, put the files {names} into {folder}, or set "
                "MUSTER_DATA_DIR to the folder that has them."
            ) from exc
        return read_idx(path)
    array = read_idx(path)
    if md5(path) != checksum:
        _log.warning(
            "%s is not the original file (its MD5 is not %s); using the %d examples in it.",
            path,
            checksum,
            len(array),
        )
    return array
