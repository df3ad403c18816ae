"""Read the memory size of the machine or container."""

import os
from pathlib import Path

# The limit of a container, of cgroups 2 and 1. "max", or a huge number, is none.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes() -> int:
    """Return the memory of this machine, or of the container that this process runs in, in bytes."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in map(Path, _LIMITS):
        try:
            found.append(int(limit.read_text()))
        except (OSError, ValueError):
            continue
    return min(found)
