"""The script of the keeper: a process that kills what is left of a job, even if the launcher was killed.

It reads a pipe whose other end only the launcher has. A byte means that the job has ended: remaining
processes are killed at once. The end of the file without a byte means that the launcher is dead: the kernel
has sent SIGTERM to its tasks (see _child.py), which may finish their steps and save; after that they get the
grace time before they are killed. Processes of the job are found by the job's id in their environment, and
among the descendants of the launcher, which adopts those whose parents have ended: even if they left their
group or session, and have an environment of their own.

Run as a script, by its path and without site packages.
Usage: ``_keeper.py DESCRIPTOR LAUNCHER JOB_ID GRACE_SECS``. Linux only.
"""

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


def main(arguments: list[str]) -> None:
    """Wait for the end of the job, then end its remaining processes.

    Args:
        arguments: The descriptor of the pipe to read, the launcher's process, the job's id, the grace time in
            seconds.
    """
    descriptor, launcher, job_id, grace_secs = arguments
    family = _Family(int(launcher))
    while not select.select([int(descriptor)], [], [], _LEARN_SECS)[0]:
        family.learn()  # once the launcher is dead, nobody knows whose they were
    launcher_is_alive = os.read(int(descriptor), 1)
    if not launcher_is_alive:
        deadline = time.monotonic() + FINISH_SECS
        while any(map(is_finishing, _processes_of(job_id))) and time.monotonic() < deadline:
            family.learn()
            time.sleep(_LOOK_SECS)
        _wait_for(_processes_of(job_id), float(grace_secs))
    while left := {*_processes_of(job_id), *family.learn()}:
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it ended by itself
        _wait_for(left, _REAP_SECS)


class _Family:
    """The descendants of a process, as far as they were seen while their ancestors lived.

    Args:
        root: The process.
    """

    def __init__(self, root: int) -> None:
        self._members = {process: since for process, (_, since) in _starts().items() if process == root}
        self._root = root

    def learn(self) -> set[int]:
        """Look for new members; returns those that live, without the root and this process."""
        starts = _starts()
        members = {
            process
            for process, since in self._members.items()
            if process in starts and starts[process][1] == since
        }
        while found := {process for process, (parent, _) in starts.items() if parent in members} - members:
            members |= found
        members -= {os.getpid()}
        self._members = {process: starts[process][1] for process in members}
        return members - {self._root}


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


def is_finishing(process: int) -> bool:
    """Return whether a task that was told to end goes on for a good reason, to finish a step or to save.

    While muster trains, it handles SIGTERM; before and after that the signal ends the process. A process that
    is stopped finishes nothing, and one that leads no session is not a task, but the child of one.
    """
    fields = _status_of(process)
    try:
        leads = os.getsid(process) == process
    except OSError:
        return False
    caught = int(fields.get("SigCgt", "0"), 16) >> (signal.SIGTERM - 1) & 1
    return leads and bool(caught) and not is_stopped(process)


def is_stopped(process: int) -> bool:
    """Return whether a process is stopped by SIGSTOP; not if a debugger has stopped it."""
    return _status_of(process).get("State", "").startswith("T")


def _status_of(process: int) -> dict[str, str]:
    """Return what the kernel says of a process; nothing if it is gone."""
    try:
        with open(f"/proc/{process}/status") as file:
            return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    except OSError:
        return {}


def _processes_of(job_id: str) -> list[int]:
    """Return the ids of the living processes that carry the job's id."""
    mark = f"MUSTER_JOB_ID={job_id}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            continue  # gone, or another user's; a zombie reads as empty
    return found


def _wait_for(processes: Iterable[int], timeout_secs: float) -> None:
    """Wait until all processes have ended or the time is over."""
    descriptors = set()
    for process in processes:
        try:
            descriptors.add(os.pidfd_open(process))
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + timeout_secs
    while descriptors and (left_secs := deadline - time.monotonic()) > 0:
        ended, _, _ = select.select(descriptors, [], [], left_secs)
        for descriptor in ended:
            descriptors.remove(descriptor)
            os.close(descriptor)
    for descriptor in descriptors:
        os.close(descriptor)


if __name__ == "__main__":
    main(sys.argv[1:])
