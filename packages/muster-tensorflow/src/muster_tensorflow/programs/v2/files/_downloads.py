"""``tf.keras.utils.get_file``, which unpacks an archive beside itself, as Keras 2 does.

Keras unpacks it into a folder of its own since 3.5: what a program looks for is then elsewhere, and a folder
with a folder for each class seems to have a single class.

Source: keras/src/utils/data_utils.py of Keras 2.15.
"""

import os
from typing import Any
from urllib.parse import urlsplit

from muster import keras


def get_file(
    fname: str | os.PathLike[str] | None = None,
    origin: str | None = None,
    untar: bool = False,
    md5_hash: str | None = None,
    file_hash: str | None = None,
    cache_subdir: str = "datasets",
    hash_algorithm: str = "auto",
    extract: bool = False,
    archive_format: Any = "auto",
    cache_dir: str | None = None,
    force_download: bool = False,
) -> str:
    """Download a file, unless it is there already.

    Args:
        fname: The name of the file, or its whole path; None for the name in `origin`.
        origin: Where to download it from.
        untar: Whether to unpack it as a tar archive, unless there is a folder `fname` already. The archive
            is the file ``fname + ".tar.gz"``.
        md5_hash: Its MD5 hash; None not to check.
        file_hash: Its hash; None not to check.
        cache_subdir: The folder of the file, in `cache_dir`.
        hash_algorithm: What computes `file_hash`: ``"md5"``, ``"sha256"``, or ``"auto"``.
        extract: Whether to unpack the file, into the folder `cache_subdir`.
        archive_format: ``"zip"``, ``"tar"``, a list of them to try, ``"auto"`` for both, or None for neither.
        cache_dir: The folder of all files; None for ``~/.keras``.
        force_download: Whether to download it also if it is there.

    Returns:
        The path of the file; with `untar` that of the folder `fname`.
    """
    path = os.fspath(fname) if fname else os.path.basename(urlsplit(origin or "").path)
    place, name = os.path.split(path)
    if untar:
        name = name.removesuffix(".tar.gz") + ".tar.gz"
    file = str(
        keras.utils.get_file(
            name,
            origin,
            md5_hash=md5_hash,
            file_hash=file_hash,
            cache_subdir=os.path.join(cache_subdir, place),
            hash_algorithm=hash_algorithm,
            cache_dir=cache_dir,
            force_download=force_download,
        )
    )
    folder = os.path.dirname(file)
    if place:
        home = cache_dir or keras.src.backend.config.keras_home()
        folder = os.path.join(os.path.expanduser(home), cache_subdir)
    unpack = keras.src.utils.file_utils.extract_archive
    if untar:
        unpacked = file.removesuffix(".tar.gz")
        if not os.path.exists(unpacked):
            unpack(file, folder, "tar")
        return unpacked
    if extract:
        unpack(file, folder, archive_format)
    return file
