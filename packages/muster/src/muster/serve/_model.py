"""The served model, and the thread that watches for newer versions."""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster._errors import RequestError
from muster._remote import refresh
from muster._text import printable_line
from muster.data import TensorSpec
from muster.saved_model import Signature, load
from muster.serve._batches import batch_sizes
from muster.serve._predict import DEFAULT_SIGNATURE
from muster.serve._status import VersionStatus
from muster.serve._versions import Stamp, Versions


@dataclass(frozen=True, kw_only=True)
class Served:
    """A signature of a version, with what requests need to know of it.

    Attributes:
        name: Its name.
        call: Computes outputs from inputs, by name.
        method_name: The method of TensorFlow's servers.
        inputs: By name.
        outputs: By name.
        rows_are_free: Whether all inputs and outputs have a row for each example, which does not depend on
            the others.
    """

    name: str
    call: Signature
    method_name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    rows_are_free: bool


@dataclass(frozen=True)
class Version:
    """A version that has been loaded.

    Attributes:
        number: Its number.
        signatures: Its signatures by name.
    """

    number: int
    signatures: Mapping[str, Served]

    def signature(self, name: str) -> Served:
        """Return a signature.

        Args:
            name: Its name; empty for the only one, or ``serving_default`` of several.

        Raises:
            RequestError: There is none by that name.
        """
        if not name:
            name = next(iter(self.signatures)) if len(self.signatures) == 1 else DEFAULT_SIGNATURE
        try:
            return self.signatures[name]
        except KeyError:
            raise RequestError(
                f"Version {self.number} has no signature {name!r}. It has: {', '.join(self.signatures)}."
            ) from None


class Model:
    """Serves the newest version in a folder.

    Args:
        folder: Has a folder for each version, whose name is its number.
        name: The name by which clients ask for it.
        most_rows: How many rows a batch has at most.
        report: Called with what a user of the server should know.
    """

    def __init__(self, folder: Path, name: str, most_rows: int, report: Callable[[str], None]) -> None:
        self.name = name
        self._folder, self._most_rows, self._report = folder, most_rows, report
        self._versions = Versions()
        self._lock = threading.Lock()
        self._version: Version | None = None
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def version(self, name: str, number: int | None) -> Version:
        """Return the version that is served.

        Args:
            name: The name of the model that is asked for.
            number: The version that is asked for; None for any.

        Raises:
            RequestError: It is another one: 404.
        """
        version = self._version
        if name != self.name:
            raise RequestError(f"There is no model {name!r}. This server has {self.name!r}.", status=404)
        if version is None:
            raise RequestError(f"There is no version of {name!r} yet that can be served.", status=404)
        if number not in (None, version.number):
            raise RequestError(
                f"Version {number} of {name!r} is not served, but version {version.number}.", status=404
            )
        return version

    def statuses(self, name: str, number: int | None) -> list[VersionStatus]:
        """Return how it stands with the versions of a model.

        Args:
            name: The name of the model that is asked for.
            number: The only version to tell of; None for all.

        Raises:
            RequestError: There is none: 404.
        """
        with self._lock:
            found = self._versions.statuses() if name == self.name else []
        found = [each for each in found if number in (None, each.version)]
        if not found:
            asked = "any version" if number is None else f"version {number}"
            raise RequestError(f"Could not find {asked} of model {name!r}.", status=404)
        return found

    @property
    def serving(self) -> int | None:
        """The number of the version that is served."""
        version = self._version
        return None if version is None else version.number

    def look(self) -> None:
        """Load versions until the newest one that can be is served."""
        while True:
            paths = _version_folders(self._folder)
            with self._lock:
                self._versions.forget(paths)
                candidates = self._versions.candidates(paths)
            stamps = {number: _stamp(paths[number]) for number in candidates}
            with self._lock:
                number, reports = self._versions.choose(stamps)
            for message in reports:
                self._report(message)
            if number is None:
                return
            self._try(number, paths[number], stamps[number])

    def watch(self, every_secs: float) -> None:
        """Look again and again, in a thread, until `close`."""

        def run() -> None:
            while not self._ending.wait(every_secs):
                before = self.serving
                self.look()
                if self.serving != before:
                    self._report(f"version {self.serving} is served now")

        self._thread = threading.Thread(target=run, name="muster-serve-watch")
        self._thread.start()

    def close(self) -> None:
        """End the thread; a version that it is loading is loaded first."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def _try(self, number: int, path: Path, stamp: Stamp) -> None:
        try:
            version = _load(number, path)
            self._warm(version)
        except Exception as exc:  # whatever is wrong with it, the old one goes on
            message = printable_line(str(exc) or type(exc).__name__)
            with self._lock:
                self._versions.failed(number, stamp, message)
            return
        with self._lock:
            self._versions.loaded(number)
            self._version = version

    def _warm(self, version: Version) -> None:
        """Let a version compile what requests will need, so that none of them waits for that."""
        for name, signature in version.signatures.items():
            sizes = batch_sizes(self._most_rows) if name == DEFAULT_SIGNATURE else [1]
            for size in sizes if signature.rows_are_free else []:
                if self._ending.is_set():
                    return
                # A model may take no zeros and empty text, which says nothing about it.
                with contextlib.suppress(ValueError):
                    signature.call(**signature.call.sample_inputs(size))


def _load(number: int, path: Path) -> Version:
    signatures = {}
    for name, call in load(path).signatures.items():
        inputs, outputs = call.inputs, call.outputs
        signatures[name] = Served(
            name=name,
            call=call,
            method_name=call.method_name,
            inputs=inputs,
            outputs=outputs,
            rows_are_free=_rows_are_free([*inputs.values()], [*outputs.values()]),
        )
    return Version(number, signatures)


def _rows_are_free(inputs: list[TensorSpec], outputs: list[TensorSpec]) -> bool:
    """Return whether rows can be computed with those of other requests, and apart from each other."""
    # Serialized examples of different lengths are padded to the longest, which shall not depend on others.
    is_padded = any(spec.dtype.kind in "SUO" for spec in inputs) and any(
        None in (spec.shape or ())[1:] for spec in outputs
    )
    return not is_padded and all(spec.shape and spec.shape[0] is None for spec in inputs + outputs)


def _version_folders(folder: Path) -> dict[int, Path]:
    """Return the folders of versions by number; none if the folder cannot be read now."""
    try:
        refresh(os.fspath(folder))
        names = sorted(os.listdir(folder))
    except OSError:
        return {}
    numbers = {int(name): folder / name for name in names if name.isascii() and name.isdigit()}
    return {number: path for number, path in numbers.items() if os.path.isdir(path)}


def _stamp(folder: Path) -> Any:
    """Return what files there are in a folder, and their sizes and dates."""
    found = []
    for place, folders, files in os.walk(folder):  # leaves out folders that cannot be read now
        for path in (os.path.join(place, name) for name in folders + files):
            try:
                stat = os.stat(path)
            except OSError:
                continue  # it was renamed or removed meanwhile
            found.append((path, stat.st_size, stat.st_mtime_ns))
    return tuple(sorted(found))
