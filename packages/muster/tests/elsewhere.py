"""Runs a program as it would run on macOS, as far as Linux can show that: without what Linux alone has.

Usage: ``elsewhere.py PROGRAM ARGUMENTS…``. Also what LINUX_ONLY is for: the names that macOS' Python lacks.
"""

import builtins
import importlib
import io
import os
import runpy
import selectors
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Of each module the names, or the beginnings of names, that Linux has and macOS has not.
_NAMES = {
    "errno": "EBADFD EREMOTEIO ECOMM ENOTUNIQ ERESTART EUCLEAN",
    "fcntl": "F_OFD_ F_ADD_SEALS F_GET_SEALS F_SEAL_ F_SETPIPE_SZ F_GETPIPE_SZ F_NOTIFY DN_",
    "mmap": "MAP_POPULATE MAP_HUGETLB MAP_LOCKED MADV_HUGEPAGE MADV_POPULATE MADV_DONTFORK",
    "os": (
        "O_DIRECT O_LARGEFILE O_NOATIME O_PATH O_RSYNC O_TMPFILE P_PIDFD SCHED_BATCH SPLICE_ "
        "copy_file_range eventfd fdatasync getrandom getresgid getresuid getxattr listxattr "
        "memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate preadv2 process_cpu_count "
        "removexattr sched_get sched_rr sched_set setns setresgid setresuid setxattr splice timerfd_ "
        "unshare"
    ),
    "resource": "RUSAGE_THREAD prlimit RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_SIGPENDING",
    "select": "EPOLL epoll",
    "signal": "SIGPOLL SIGPWR SIGRTM SIGSTKFLT pidfd_send_signal sigtimedwait sigwaitinfo",
    "socket": (
        "AF_ALG AF_CAN AF_NETLINK AF_PACKET AF_TIPC AF_VSOCK MSG_CONFIRM MSG_ERRQUEUE MSG_FASTOPEN "
        "MSG_MORE MSG_NOSIGNAL SOCK_CLOEXEC SOCK_NONBLOCK SO_BINDTODEVICE SO_DOMAIN SO_INCOMING_CPU "
        "SO_MARK SO_PASSCRED SO_PEERCRED SO_PRIORITY SO_PROTOCOL TCP_CONGESTION TCP_CORK "
        "TCP_DEFER_ACCEPT TCP_KEEPIDLE TCP_LINGER2 TCP_QUICKACK TCP_SYNCNT TCP_USER_TIMEOUT "
        "TCP_WINDOW_CLAMP"
    ),
    "time": "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
}
LINUX_ONLY = {module: tuple(names.split()) for module, names in _NAMES.items()}
_FOLDERS = ("/proc", "/sys", "/dev/shm")


def leave_linux() -> None:
    """Take away what other systems do not have, from here on; what was imported before keeps it."""
    import socket

    socket.TCP_KEEPALIVE = getattr(socket, "TCP_KEEPIDLE", 4)  # type: ignore[attr-defined]
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]  # it has looked when it was imported
    selectors.DefaultSelector = selectors.PollSelector  # type: ignore[misc]
    for name, prefixes in LINUX_ONLY.items():
        module = importlib.import_module(name)
        for attribute in [each for each in dir(module) if each.startswith(prefixes)]:
            delattr(module, attribute)
    for module, name in (
        (builtins, "open"), (io, "open"), (os, "listdir"), (os, "open"), (os, "readlink"), (os, "scandir"),
        (os, "stat"), (os, "lstat"),
    ):  # fmt: skip
        setattr(module, name, _without_folders(getattr(module, name)))


def _without_folders(call: Callable[..., Any]) -> Callable[..., Any]:
    def replaced(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        if isinstance(path, str | Path) and str(path).startswith(_FOLDERS):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return call(path, *args, **kwargs)

    return replaced


if __name__ == "__main__":
    import asyncio  # noqa: F401, what others import is theirs to know
    import subprocess  # noqa: F401

    os.environ["KERAS_BACKEND"] = "jax"
    for name in (
        "jax",
        "keras",
        "sklearn.datasets",
        "portpicker",
        "rich.console",
        "yaml",
        "msgspec",
        "cloudpickle",
    ):
        importlib.import_module(name)
    leave_linux()
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
