"""The script of the keeper process: kills the remaining tasks of a job, even if the launcher was killed.

It reads a pipe whose other end only the launcher has: the process of each task that is started, a line each,
and ``end``, at which remaining processes are killed at once. Without that, the end of the file means that the
launcher is dead: the kernel has sent SIGTERM to its tasks (see _child.py), which may finish their steps and
save; after that they get the grace time before they are killed.

Processes of the job are found by a variable of their environment, the mark, and among the descendants of
tasks, even if they left their group or session, and have an environment of their own. The launcher adopts
those whose parents have ended, so that its descendants are the job's. But where it had other children before,
or is the first process of a container, which all orphans come to, only those count that were seen below a
task.

Run as a script, by its path and without site packages.
Usage: ``_keeper.py DESCRIPTOR LAUNCHER ADOPTS MARK GRACE_SECS``, ADOPTS being 1 or 0. Linux only. The exit
code is 1 if processes are left that cannot be killed.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterable

# How long a task may take to finish a step and to save, in seconds.
FINISH_SECS = 600.0

_LOOK_SECS = 0.1
_LEARN_SECS = 1.0
_REAP_SECS = 1.0
# How long to try to kill what is left, in seconds.
_KILL_SECS = 20.0


def main(arguments: list[str]) -> int:
    """Wait for the end of the job, then end its remaining processes.

    Args:
        arguments: As above.

    Returns:
        The exit code.
    """
    descriptor, launcher, adopts, mark, grace_secs = arguments
    family = _Family(int(launcher), adopts == "1", mark)
    told = b""
    while not told.endswith(b"end\n"):
        if select.select([int(descriptor)], [], [], _LEARN_SECS)[0]:
            news = os.read(int(descriptor), 1 << 12)
            if not news:
                break
            told += news
        family.learn()  # later, orphans cannot be recognised any more
    if not told.endswith(b"end\n"):
        tasks = [int(line) for line in told.split(b"\n")[:-1]]
        looks = 0  # counted, since a suspended machine is no reason to hurry
        while any(map(is_finishing, tasks)) and looks * _LOOK_SECS < FINISH_SECS:
            looks += 1
            family.learn()
            time.sleep(_LOOK_SECS)
        _wait_for(family.learn(), float(grace_secs))
    give_up = time.monotonic() + _KILL_SECS
    while left := family.learn():
        if time.monotonic() > give_up:
            return 1
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # ended, or another user's
                os.kill(process, signal.SIGKILL)
        _wait_for(left, _REAP_SECS)
    return 0


class _Family:
    """The processes of a job, as far as they can be recognised.

    Args:
        launcher: The launcher's process.
        adopts: Whether all descendants of the launcher are the job's.
        mark: A variable of the job's processes, as ``NAME=value``.
    """

    def __init__(self, launcher: int, adopts: bool, mark: str) -> None:
        self._launcher = launcher
        self._mark = mark
        began = _starts().get(launcher)
        self._members = {launcher: began[1]} if adopts and began is not None else {}

    def learn(self) -> set[int]:
        """Look for new members; returns those that live, without the launcher and this process."""
        starts = _starts()
        members = {
            process
            for process, since in self._members.items()
            if process in starts and starts[process][1] == since
        }
        members |= starts.keys() & _processes_of(self._mark)
        while found := {process for process, (parent, _) in starts.items() if parent in members} - members:
            members |= found
        members -= {os.getpid()}
        self._members = {process: starts[process][1] for process in members}
        return members - {self._launcher}


def _starts() -> dict[int, tuple[int, str]]:
    """Return the parent of each process that lives, and when it began, which tells it from later ones."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat") as file:
                    state, parent, *rest = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if state not in "ZX":
                found[int(name)] = (int(parent), rest[17])
    return found


def has_children(process: int) -> bool:
    """Return whether a process has children that live."""
    return any(parent == process for parent, _ in _starts().values())


def is_finishing(process: int) -> bool:
    """Return whether a task that was told to end goes on for a good reason, to finish a step or to save.

    While muster trains, it handles SIGTERM; before and after that the signal ends the process. A process that
    is stopped finishes nothing.
    """
    stopped, handles = state_of(process)
    return handles and not stopped


def state_of(process: int) -> tuple[bool, bool]:
    """Return whether a process is stopped by SIGSTOP, not by a debugger, and whether it handles SIGTERM."""
    fields = _status_of(process)
    handles = int(fields.get("SigCgt", "0"), 16) >> (signal.SIGTERM - 1) & 1
    return fields.get("State", "").startswith("T"), bool(handles)


def _status_of(process: int) -> dict[str, str]:
    """Return what the kernel says of a process; nothing if it is gone."""
    try:
        with open(f"/proc/{process}/status") as file:
            return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    except OSError:
        return {}


def _processes_of(mark: str) -> set[int]:
    """Return the ids of the living processes that carry the mark."""
    marked = os.fsencode(mark)
    found = set()
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if marked in file.read().split(b"\0"):
                    found.add(int(name))
        except OSError:
            continue  # gone, or another user's; a zombie reads as empty
    return found


def _wait_for(processes: Iterable[int], timeout_secs: float) -> None:
    """Wait until all processes have ended or the time is over."""
    deadline = time.monotonic() + timeout_secs
    for process in processes:
        try:
            descriptor = os.pidfd_open(process)
        except ProcessLookupError:
            continue
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        ended = poll.poll(max(0.0, 1000 * (deadline - time.monotonic())))
        os.close(descriptor)
        if not ended:
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
