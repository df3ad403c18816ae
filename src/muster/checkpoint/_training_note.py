"""A note in a directory of checkpoints: which process trains, and whether it has ended its training.

Programs that save now and then hold no lease in between, and their last checkpoint does not say that it is
the last. So who evaluates checkpoints in another process reads this note. It is written once, and again when
the program ends by itself; a program that an error ends, or that is killed, leaves it as it is.
"""

import atexit
import contextlib
import dataclasses
import os
import secrets
import sys
from collections.abc import Mapping

import msgspec

from muster._processes import start_ticks
from muster.checkpoint._arrays import open_regular
from muster.checkpoint._lease import this_machine

NOTE_NAME = "training.json"
_MAX_BYTES = 1 << 12


@dataclasses.dataclass(frozen=True)
class TrainingNote:
    """What a program that trains notes.

    Attributes:
        token: Tells this program from all others.
        machine: Tells the machine from all others, and a container from its host.
        pid: The process, as that machine numbers it.
        started: When it began, as `start_ticks` tells there: process numbers are used again.
        ended: Whether the program has ended by itself.
    """

    token: str
    machine: str
    pid: int
    started: int | None
    ended: bool = False

    @property
    def is_on(self) -> bool:
        """Whether the program goes on, as far as this machine can tell: not of a program on another one."""
        if self.ended or self.machine != this_machine():
            return not self.ended
        return self.started is not None and start_ticks(self.pid) == self.started


def note_training(directory: str | os.PathLike[str]) -> None:
    """Note that this program trains, and saves into a directory that exists; at its end, that it has ended.

    Calls after the first cost nothing. Nothing is noted where the directory cannot be written.
    """
    path = os.path.abspath(os.path.join(directory, NOTE_NAME))
    pid = os.getpid()
    if (pid, path) in _NOTES and os.path.exists(path):
        return
    note = TrainingNote(secrets.token_hex(8), this_machine(), pid, start_ticks())
    with contextlib.suppress(OSError):
        _write(path, note)
        _NOTES[pid, path] = note


def forget_notes() -> None:
    """Do not note the end of this program as that of its training: it will be started again."""
    _NOTES.clear()


def read_note(directory: str | os.PathLike[str]) -> TrainingNote | None:
    """Return the note in a directory; None if there is none that can be read."""
    return _read(os.path.join(directory, NOTE_NAME))


_NOTES: dict[tuple[int, str], TrainingNote] = {}


@atexit.register
def _end_notes() -> None:
    """Note in each directory that training has ended, unless an error ends the program."""
    if hasattr(sys, "last_value") and not hasattr(sys, "ps1"):
        return
    _end(_NOTES)


def _end(notes: Mapping[tuple[int, str], TrainingNote]) -> None:
    for (pid, path), note in notes.items():
        # A child that was forked does not end its parent's training, and another program may have begun.
        if pid == os.getpid() and _read(path) == note:
            with contextlib.suppress(OSError):
                _write(path, dataclasses.replace(note, ended=True))


def _read(path: str) -> TrainingNote | None:
    try:
        with open(path, "rb", opener=open_regular) as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=TrainingNote)
    except (OSError, msgspec.DecodeError):
        return None


def _write(path: str, note: TrainingNote) -> None:
    temporary = f"{path}.{note.token}.tmp"
    with open(temporary, "wb") as file:
        file.write(msgspec.json.encode(note))
    os.replace(temporary, path)
