"""The memory that is left to new processes on this machine, or in this container."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


def available_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return how much memory new processes may take, in bytes, without swapping; None if nobody tells.

    Args:
        proc: Where Linux tells of processes.
        groups: Where Linux tells of control groups, by which containers have limits.
    """
    found = [*_of_machine(proc), *_of_groups(proc, groups)]
    return min(found, default=None)


def _of_machine(proc: Path) -> Iterator[int]:
    with contextlib.suppress(OSError, KeyError, ValueError):
        yield _fields(proc / "meminfo")["MemAvailable:"] * 1024


def _of_groups(proc: Path, groups: Path) -> Iterator[int]:
    """Yield what is left to each control group that this process is in, of either version."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            root, names = groups, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = groups / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        folder = root / path.strip("/")
        # In a container the path may be the host's; then the root is the container's own.
        for each in (folder, *folder.parents):
            if each.is_relative_to(root):
                yield from _of_group(each, *names)


def _of_group(folder: Path, limit: str, usage: str, inactive: str) -> Iterator[int]:
    # A group without a limit has the text "max", or no such file.
    with contextlib.suppress(OSError, ValueError):
        used = int((folder / usage).read_text()) - _fields(folder / "memory.stat").get(inactive, 0)
        yield max(0, int((folder / limit).read_text()) - used)


def _fields(path: Path) -> dict[str, int]:
    """Read lines of a name and a number."""
    words = (line.split() for line in path.read_text().splitlines())
    return {each[0]: int(each[1]) for each in words if len(each) > 1}
