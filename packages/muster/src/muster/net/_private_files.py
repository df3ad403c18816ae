"""Files that hold secrets: refused where others may read them, as ssh does."""

import os
import shlex
import stat
from pathlib import Path

from muster._errors import CredentialsError

_LARGEST = 1 << 16  # of a secret or a private key, in bytes; what is larger is another file


def read_private(path: Path) -> bytes:
    """Return the content of a file that others may not read.

    Its mode must give its group and others no rights. One case is excepted: the group may read a file that
    belongs to root, where this process is not root. So Kubernetes mounts a Secret with ``defaultMode: 0400``
    for a pod that has an ``fsGroup``, and without the group's right the pod could not read it.

    Args:
        path: The file; symbolic links are followed, and the file that they lead to counts.

    Raises:
        CredentialsError: It cannot be read, others may read it, or it is no file of a few lines.
    """
    try:
        # Without O_NONBLOCK a FIFO would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        raise CredentialsError(
            f"{path} cannot be read by the user {os.geteuid()}: {exc.strerror}. Name a file that this user "
            "may read; in Kubernetes, a pod that does not run as root needs an fsGroup (securityContext)."
        ) from exc
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise CredentialsError(f"{path} is not a file. Name the file that holds the secret or the key.")
        if is_exposed(found.st_mode, owner=found.st_uid, user=os.geteuid()):
            mode = stat.S_IMODE(found.st_mode)
            raise CredentialsError(
                f"Others may read or change {path}, which must be secret. Its mode is {mode:04o}. "
                f"Run: chmod 600 {shlex.quote(str(path))} (in Kubernetes: defaultMode: 0400)."
            )
        content = os.read(descriptor, _LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(content) > _LARGEST:
        raise CredentialsError(f"{path} is larger than {_LARGEST} bytes: it holds no secret and no key.")
    return content


def is_exposed(mode: int, *, owner: int, user: int) -> bool:
    """Return whether others may read or change a file of a user, by the rule of `read_private`."""
    others = stat.S_IRWXG | stat.S_IRWXO
    if owner == 0 and user != 0:
        others &= ~stat.S_IRGRP
    return bool(mode & others)
