"""Choose the version of a model to serve; no files or clocks."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.serve._status import VersionStatus

# What files a version's folder has, of which sizes and dates: it changes while a version is being copied.
Stamp = Any


@dataclass(frozen=True)
class _LoadFailure:
    stamp: Stamp
    message: str
    reported: bool = False


class Versions:
    """The versions of a model: which is served, which were, and which cannot be.

    The newest one that can be loaded is served. One that cannot be is tried again when its files have
    changed, and reported when they have not: then nobody is writing them.

    Attributes:
        serving: The number of the version that is served.
        loading: The number of the one that is being loaded.
    """

    def __init__(self) -> None:
        self.serving: int | None = None
        self.loading: int | None = None
        self._served: set[int] = set()
        self._failures: dict[int, _LoadFailure] = {}

    def candidates(self, found: Collection[int]) -> list[int]:
        """Return the versions that might be served instead of the one that is, the newest first.

        Args:
            found: The versions that there are. If the one that is served is not among them, an older one may
                replace it.
        """
        least = self.serving if self.serving in found else None
        return sorted((number for number in found if least is None or number > least), reverse=True)

    def choose(self, stamps: Mapping[int, Stamp]) -> tuple[int | None, list[str]]:
        """Return which version to load now, if any, and messages about those that cannot be.

        Args:
            stamps: The stamps of the candidates, in their order.
        """
        reports: list[str] = []
        for number, stamp in stamps.items():
            failure = self._failures.get(number)
            if failure is None or failure.stamp != stamp:
                self.loading = number
                return number, reports
            if not failure.reported:
                self._failures[number] = _LoadFailure(stamp, failure.message, True)
                reports.append(f"version {number} cannot be loaded: {failure.message}")
        return None, reports

    def loaded(self, number: int) -> None:
        """Note that a version is served from now on."""
        self.serving, self.loading = number, None
        self._served.add(number)
        self._failures.pop(number, None)

    def failed(self, number: int, stamp: Stamp, message: str) -> None:
        """Note that a version cannot be loaded.

        Args:
            number: The version.
            stamp: Its stamp before it was tried.
            message: Why.
        """
        self.loading = None
        before = self._failures.get(number)
        # Whoever copies slowly makes the same mistake again and again.
        known = before is not None and before.reported and before.message == message
        self._failures[number] = _LoadFailure(stamp, message, known)

    def forget(self, found: Iterable[int]) -> None:
        """Drop what is known of versions that are gone, but for the one that is served."""
        kept = {*found, self.serving}
        self._served &= kept
        self._failures = {number: each for number, each in self._failures.items() if number in kept}

    def statuses(self) -> list[VersionStatus]:
        """Return how it stands with all versions that were tried."""
        known = {number: VersionStatus(version=number, state="END") for number in self._served}
        known |= {
            number: VersionStatus(version=number, state="END", error=failure.message)
            for number, failure in self._failures.items()
        }
        if self.loading is not None:
            known[self.loading] = VersionStatus(version=self.loading, state="LOADING")
        if self.serving is not None:
            known[self.serving] = VersionStatus(version=self.serving, state="AVAILABLE")
        return list(known.values())
