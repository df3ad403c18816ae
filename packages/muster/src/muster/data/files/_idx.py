"""The idx file format, in which MNIST is distributed.

Format: http://yann.lecun.com/exdb/mnist/: two zero bytes, a type code, the number of dimensions, each
size as a big-endian 32-bit number, then the values, big-endian, the last index running fastest.
"""

import gzip
import math
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster._paths import local_path

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
