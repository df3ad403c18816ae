"""The MNIST digits, from disk or from the network, and the idx file format, in which they are distributed.

Format: http://yann.lecun.com/exdb/mnist/: two zero bytes, a type code, the number of dimensions, each
size as a big-endian 32-bit number, then the values, big-endian, the last index running fastest.
"""

import gzip
import logging
import math
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from muster._errors import DatasetError, DownloadError
from muster._paths import local_path, user_cache
from muster.data.files._download import fetch, md5

_GZIP_MAGIC = b"\x1f\x8b"
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | os.PathLike[str]) -> np.ndarray[Any, Any]:
    """Read an idx file, which may be compressed with gzip.

    Args:
        path: The path of the file.

    Returns:
        An array of the shape and type in the header, in native byte order.

    Raises:
        OSError: The file cannot be read.
        DatasetError: The file is not an idx file, or is shorter or longer than its header says.
    """
    data = Path(local_path(path)).read_bytes()
    if data.startswith(_GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (EOFError, gzip.BadGzipFile, zlib.error) as exc:
            raise DatasetError(f"{path} is a damaged or truncated gzip file: {exc}. Fetch it again.") from exc
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES:
        raise DatasetError(
            f"{path} is not an idx file: it begins with {data[:4].hex(' ') or 'nothing'}, expected 00 00, a "
            f"type code ({', '.join(f'{code:02x}' for code in _TYPES)}) and the number of dimensions."
        )
    dtype, rank = np.dtype(_TYPES[data[2]]), data[3]
    start = 4 + 4 * rank
    if len(data) < start:
        raise DatasetError(
            f"{path} is truncated: its header for {rank} dimensions takes {start} bytes, it has {len(data)}."
        )
    shape = tuple(int(size) for size in np.frombuffer(data, ">u4", rank, 4))
    expected = start + math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        kind = "truncated" if len(data) < expected else "too long"
        raise DatasetError(
            f"{path} is {kind}: shape {shape} of {dtype.newbyteorder('=')} takes {expected} bytes, it has "
            f"{len(data)}. Fetch it again."
        )
    return np.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


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
    return user_cache()


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
