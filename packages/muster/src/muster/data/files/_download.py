"""Downloads from mirrors, verified by checksum."""

import hashlib
import http.client
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO

from muster._errors import DownloadError

_CHUNK = 1 << 18
_TIMEOUT_SECONDS = 30.0
_new_md5 = partial(hashlib.md5, usedforsecurity=False)


def md5(path: Path) -> str:
    """Return the MD5 checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, _new_md5).hexdigest()


def fetch(name: str, folder: Path, checksum: str, mirrors: Sequence[str]) -> Path:
    """Fetch one file, with a progress bar on a terminal.

    The file is written under a temporary name and renamed once its checksum is right, so that neither an
    interruption nor another process leaves an incomplete file.

    Args:
        name: The name of the file, here and on the mirrors.
        folder: Where to put the file; created if it does not exist.
        checksum: MD5, in hexadecimal.
        mirrors: URLs of folders that hold the file, tried in turn.

    Returns:
        The path of the file.

    Raises:
        DownloadError: No mirror has the file; names the error of each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    failures = []
    for mirror in mirrors:
        url = f"{mirror.rstrip('/')}/{name}"
        descriptor, partial = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                found = _copy(url, name, file)
            if found != checksum:
                failures.append(f"{url}: MD5 {found}, expected {checksum}")
                continue
            os.chmod(partial, 0o644)
            os.replace(partial, folder / name)
            return folder / name
        except (OSError, http.client.HTTPException) as exc:
            failures.append(f"{url}: {exc}")
        finally:
            Path(partial).unlink(missing_ok=True)
    raise DownloadError("; ".join(failures))


def _copy(url: str, name: str, file: IO[bytes]) -> str:
    """Copy the content of `url` to `file` and return its MD5."""
    import urllib.request  # slow to import, and rarely needed, as rich is

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    digest = _new_md5()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    terminal = sys.stderr.isatty()
    with (
        urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response,
        Progress(*columns, console=Console(stderr=True), disable=not terminal) as progress,
    ):
        size = response.headers.get("Content-Length")
        task = progress.add_task(name, total=int(size) if size else None)
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            progress.advance(task, len(chunk))
    return digest.hexdigest()
