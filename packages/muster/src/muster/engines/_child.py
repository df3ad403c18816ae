"""The script that starts a task: binds the process to cores and to its parent, then runs the program.

Run as a script, by its path and without site packages, so that it costs a few milliseconds. It then replaces
itself with the program, which sees an ordinary Python with an ordinary ``__main__`` and plain tracebacks.

Usage: ``_child.py PARENT_PID CORES COMMAND…``, CORES being numbers with commas between, or ``-`` for all.
Linux only.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Replace this process with the command. Never returns.

    Args:
        arguments: The parent's process id, the cores, and the command with its arguments.
    """
    parent, cores, *command = arguments
    # Survives exec. When the parent dies, the kernel sends SIGTERM, at which the task saves and ends.
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG) failed: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != int(parent):
        sys.exit("The process that started this task ended meanwhile.")
    if cores != "-":
        os.sched_setaffinity(0, [int(core) for core in cores.split(",")])
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
