"""A note beside a checkpoint directory: the process that trains there, and the state of its training.

Programs that save now and then hold no lease in between, and their last checkpoint does not say that it is
the last. So who evaluates checkpoints in another process reads this note. It is written once, and again when
the program ends by itself; a program that an error ends, or that is killed, leaves it as it is.

It is a hidden file beside the directory, named after it. In the directory, programs that look for the newest
of its files, to load that, would find the note. It is there only for the working directory, of which nobody
expects a file outside, and where there may be none beside it.
"""

import atexit
import contextlib
import dataclasses
import os
import secrets
import sys
import threading
import zlib
from collections.abc import Mapping

import msgspec

from muster._remote import publish, refresh, remote_url
from muster.checkpoint._arrays import open_regular
from muster.checkpoint._lease import this_machine
from muster.lifecycle import at_block_end, start_ticks

_NAME = "training.json"
_MAX_BYTES = 1 << 12


@dataclasses.dataclass(frozen=True)
class TrainingNote:
    """The note of a training process.

    Attributes:
        token: Tells this program from all others.
        machine: Tells the machine from all others, and a container from its host.
        pid: The process, as that machine numbers it.
        started: When it began, as `start_ticks` tells there: process numbers are used again.
        directory: The number of the directory, as its file system has it: another one of that name has none.
        ended: Whether the program has ended by itself.
    """

    token: str
    machine: str
    pid: int
    started: int | None
    directory: int
    ended: bool = False

    @property
    def is_on(self) -> bool:
        """True while the process trains; another machine's process, until its note says that it has ended."""
        if self.ended or self.machine != this_machine():
            return not self.ended
        return self.started is not None and start_ticks(self.pid) == self.started


def note_training(directory: str | os.PathLike[str]) -> None:
    """Note that this program trains, and saves into a directory; at its end, that it has ended.

    Calls after the first cost nothing. Nothing is noted of a directory that is missing, or where neither it
    nor that around it can be written.
    """
    pid, places = os.getpid(), note_paths(directory)
    number = _number(directory)
    known = [path for path in places if (pid, path) in _NOTES and _NOTES[pid, path].directory == number]
    if number is None or any(map(os.path.exists, known)):
        return
    if at_block_end(_end_with_block):
        pass
    elif remote_url(places[0]) == places[0]:
        atexit.unregister(_end_notes)
        atexit.register(_end_notes)  # only where there is something to note
    elif pid not in _ENDED_EARLY:
        _ENDED_EARLY.add(pid)  # before pools of threads are closed, which file systems use
        threading._register_atexit(_end_notes)  # type: ignore[attr-defined]
    note = TrainingNote(secrets.token_hex(8), this_machine(), pid, start_ticks(), number)
    for path in places[1:] if os.path.abspath(directory) == os.getcwd() else places:
        with contextlib.suppress(OSError):
            _write(path, note)
            _NOTES[pid, path] = note
            return


def note_paths(directory: str | os.PathLike[str]) -> list[str]:
    """Return where the note of a directory may be: beside it, and in it."""
    whole = os.path.abspath(directory)
    if remote_url(whole) != whole:
        return [os.path.join(whole, _NAME)]
    around, name = os.path.split(whole)
    return [os.path.join(around, f".{name}.{_NAME}"), os.path.join(whole, _NAME)]


def forget_notes() -> None:
    """Do not note the end of this program as that of its training: it will be started again."""
    _NOTES.clear()


def read_note(directory: str | os.PathLike[str]) -> TrainingNote | None:
    """Return the last note of a directory; None if there is none that can be read."""
    number = _number(directory)
    read = [each for path in note_paths(directory) for each in _read(path)]
    found = [(time, note) for time, note in read if note.directory == number]
    return max(found, key=lambda pair: pair[0])[1] if found else None


_NOTES: dict[tuple[int, str], TrainingNote] = {}
_ENDED_EARLY: set[int] = set()


def _end_notes() -> None:
    """Note in each directory that training has ended, unless an error ends the program."""
    if hasattr(sys, "last_value") and not hasattr(sys, "ps1"):
        return
    _end(_NOTES)


def _end_with_block(error: BaseException | None) -> None:
    """Note that training has ended in a process that goes on, and may train again."""
    if error is None:
        _end(_NOTES)
    _NOTES.clear()


def _end(notes: Mapping[tuple[int, str], TrainingNote]) -> None:
    for (pid, path), note in notes.items():
        # A child that was forked does not end its parent's training, and another program may have begun.
        if pid == os.getpid() and note in [read for _, read in _read(path)]:
            with contextlib.suppress(OSError):
                _write(path, dataclasses.replace(note, ended=True))


def _number(directory: str | os.PathLike[str]) -> int | None:
    place = os.path.abspath(directory)
    if (url := remote_url(place)) != place:
        return zlib.crc32(url.encode())
    try:
        return os.stat(directory).st_ino
    except OSError:
        return None


def _read(path: str) -> list[tuple[int, TrainingNote]]:
    """Return when the note in a file was written, in nanoseconds, and the note; nothing if it has none."""
    refresh(path)
    try:
        with open(path, "rb", opener=open_regular) as file:
            note = msgspec.json.decode(file.read(_MAX_BYTES), type=TrainingNote)
            return [(os.fstat(file.fileno()).st_mtime_ns, note)]
    except (OSError, msgspec.DecodeError):
        return []


def _write(path: str, note: TrainingNote) -> None:
    temporary = f"{path}.{note.token}.tmp"
    with open(temporary, "wb") as file:
        file.write(msgspec.json.encode(note))
    os.replace(temporary, path)
    publish(path)
