"""Convert users' paths to local ones, and refuse remote URLs such as ``s3://``."""

import os
import re
from pathlib import Path

from muster._errors import PathError

# `pathlib.Path` makes one slash of two, so that one must do.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?:/([^/]*))?")


def local_path(path: str | bytes | os.PathLike[str], *, remote: bool = False, fetch: bool = True) -> str:
    """Return a path as text: of ``file:///x/y`` the part ``/x/y``, and others as they are.

    Every function that takes a path from a user calls this before it makes or opens anything: ``s3://b/run``
    would else be a folder ``s3:`` where the program runs. A folder of that name can be given as ``./s3:/b``.

    Args:
        path: A path, or a URL of the scheme ``file``, in which nothing is quoted.
        remote: Whether the caller also takes URLs of other schemes, and does what `muster._remote` says: the
            result is then their place in a working copy.
        fetch: Whether what is at such a URL is looked at, and copied if it is a file.

    Raises:
        PathError: It has another scheme, such as ``s3://`` or ``hdfs://``, or names another host.
        StorageError: What it names cannot be looked at.
        TypeError: It is no path.
    """
    text = os.fsdecode(path)
    found = _URL.match(text)
    if found is None:
        return text
    scheme, host = found[1].lower(), found[2] or ""
    if scheme != "file" and remote:
        from muster._remote import working_path

        return working_path(scheme, text[len(scheme) + 1 :], fetch=fetch)
    if scheme != "file":
        raise PathError(
            f"{text!r} is not a path that muster can use: it has no file system for {scheme}://. Give a path "
            f"of this machine, or file:///...: mount what {scheme}:// names as a folder, or copy its files."
        )
    if host not in ("", "localhost"):
        raise PathError(
            f"{text!r} is not a path that muster can use: it names the host {host!r}, and file:// reaches no "
            "other hosts. Give a path of this machine, such as file:///folder with three slashes."
        )
    return "/" + text[found.end() :].lstrip("/")


def user_cache() -> Path:
    """Return the folder of what muster keeps for a user: ``~/.cache/muster``, or in ``XDG_CACHE_HOME``."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "muster"


def require_trusted(path: Path) -> None:
    """Raise PermissionError for a directory of programs that another user could have written to."""
    stat = path.stat()
    if stat.st_uid != os.geteuid() or stat.st_mode & 0o002:
        raise PermissionError(
            f"{path} belongs to another user, or others may write to it, and loading an entry means running "
            "it. Remove it, or chmod it to 700."
        )
