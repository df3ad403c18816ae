"""A file system that fails when it is told to, and the working copies of several processes in one."""

import contextlib
import tempfile
import threading
from unittest import mock

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from muster import _remote, _remote_store


class Faulty(MemoryFileSystem):
    """A file system in memory, ``faulty://``.

    Attributes:
        done: What was asked of it, and of which file.
        failures: What the next calls that write raise.
        left: How many calls are left until the process is killed; None for any number.
        hidden: What listings do not show yet.
        held: The end of the names of files that are written only when `may_write` is set; None for no file.
    """

    protocol = "faulty"
    store, pseudo_dirs = {}, [""]
    cachable = False
    done, failures, left, hidden = [], [], None, set()
    held, may_write = None, threading.Event()

    def _begin(self, what, path):
        if what == "put" and Faulty.held is not None and path.endswith(Faulty.held):
            Faulty.done.append(("held", path.rpartition("/")[2]))
            assert Faulty.may_write.wait(60.0)
        if Faulty.failures and what == "put":
            raise Faulty.failures.pop(0)
        if Faulty.left is not None:
            if Faulty.left == 0:
                raise SystemExit("killed")
            Faulty.left -= 1
        Faulty.done.append((what, path.rpartition("/")[2]))

    def put_file(self, lpath, rpath, **kwargs):
        self._begin("put", rpath)
        super().put_file(lpath, rpath, **kwargs)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        self._begin("put", path)
        super().pipe_file(path, value, mode=mode, **kwargs)

    def rm_file(self, path):
        self._begin("rm", path)
        super()._rm(path)

    def get_file(self, rpath, lpath, **kwargs):
        self._begin("get", rpath)
        super().get_file(rpath, lpath, **kwargs)

    def find(self, path, **kwargs):
        found = super().find(path, **kwargs)
        return found if isinstance(found, list) else {each: found[each] for each in {*found} - Faulty.hidden}


@pytest.fixture(name="faulty")
def faulty_store(monkeypatch):
    """Return an empty `Faulty`. Nothing waits, and listings are never remembered."""
    fsspec.register_implementation("faulty", Faulty, clobber=True)
    Faulty.store.clear()
    Faulty.pseudo_dirs[:] = [""]
    Faulty.done, Faulty.failures, Faulty.left, Faulty.hidden = [], [], None, set()
    Faulty.held, Faulty.may_write = None, threading.Event()
    monkeypatch.setattr(_remote_store, "_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(_remote_store, "_FRESH_SECS", 0.0)
    with elsewhere():
        yield Faulty()


@contextlib.contextmanager
def elsewhere():
    """Do what follows as another process does, which has working copies of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(_remote, "_root", return_value=folder),
        mock.patch.object(_remote, "_stores", {}),
    ):
        yield


def names(store):
    """Return the files of a bucket."""
    return sorted(path.removeprefix("/b/") for path in store.find("/b"))
