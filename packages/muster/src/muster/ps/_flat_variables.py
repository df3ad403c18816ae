"""Hold a plan and the values of its arrays, and check what is sent for them."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import numpy as np

from muster._text import printable
from muster.ps import _messages as messages
from muster.ps._flat_layout import Array, Flat, FlatLayout
from muster.ps._plan import Plan, check_plan, difference, fingerprint
from muster.ps._replies import RefusedError

# The longest encoded plan, in bytes.
MAX_PLAN = 1 << 28


class Rows(Protocol):
    """The values of a plan, and its update. What it returns is never changed afterwards."""

    def set(self, pulled: Flat, kept: Flat) -> None:
        """Take copies of new values."""

    def pulled(self) -> Flat:
        """Return what workers read."""

    def kept(self) -> Flat:
        """Return what only updates read and write."""

    def apply(self, pushed: Flat) -> None:
        """Run the update."""


class FlatVariables:
    """The plan of a server, once a worker has offered it, and the values, once the chief has given them.

    Args:
        make_rows: Compiles the update of a plan; raises ValueError with a clause about the plan.

    Attributes:
        plan: The plan.
        fingerprint: That of the plan; empty for none.
        initialized: Whether there are values.
        version: How many times the values were changed.
    """

    def __init__(self, make_rows: Callable[[Plan], Rows]) -> None:
        self.plan = Plan()
        self.fingerprint = ""
        self.initialized = False
        self.version = 0
        self._make_rows = make_rows
        self._pulled, self._kept, self._pushed = FlatLayout(()), FlatLayout(()), FlatLayout(())
        self._rows: Rows | None = None
        self._sums: list[Array] = []
        self._added = 0  # how many pushes are in the sums

    def take_plan(self, encoded: bytes) -> str:
        """Take the first plan, and return the fingerprint of this one, which is the same."""
        try:
            plan = msgspec.msgpack.decode(encoded, type=Plan)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError) as exc:
            raise RefusedError(f"its plan cannot be read: {printable(str(exc))}") from exc
        if (found := fingerprint(plan)) == self.fingerprint:
            return found
        if self._rows is not None:
            raise RefusedError(
                "its plan differs from that of the task that came first: "
                f"{printable(difference(self.plan, plan))}. Run the same program in all tasks, with the "
                "same cluster in TF_CONFIG"
            )
        try:
            check_plan(plan)
            self._rows = self._make_rows(plan)
        except ValueError as exc:
            raise RefusedError(f"its plan cannot be used: {printable(str(exc))}") from exc
        self.plan, self.fingerprint = plan, found
        self._pulled, self._kept, self._pushed = map(FlatLayout, (plan.pulled, plan.kept, plan.pushed))
        return found

    def check_sizes(self, message: messages.Request, given: Sequence[tuple[str, int]]) -> None:
        """Raise RefusedError if other buffers are to follow a request than the plan says.

        Args:
            message: The request.
            given: The name of the dtype and the number of elements of each buffer.
        """
        wanted: list[tuple[str, int]] = []
        match message:
            case messages.Offer():
                if len(given) == 1 and given[0][0] == "uint8" and 0 <= given[0][1] <= MAX_PLAN:
                    return
                raise RefusedError(f"a plan must come in one buffer of at most {MAX_PLAN} bytes")
            case messages.Initialize() | messages.Write():
                wanted = [*self._pulled.sizes.items(), *self._kept.sizes.items()]
            case messages.Push():
                wanted = list(self._pushed.sizes.items())
        if list(given) != wanted:
            described, planned = (
                ", ".join(f"{size} of {dtype}" for dtype, size in each) or "none" for each in (given, wanted)
            )
            raise RefusedError(
                f"its {messages.name_of(message)} has other elements than the plan: {printable(described)}; "
                f"the plan has {planned}"
            )

    def set(self, arrays: Sequence[Array]) -> None:
        """Take copies of values, pulled and then kept."""
        pulled = len(self._pulled.sizes)
        self._some_rows().set(
            dict(zip(self._pulled.sizes, arrays[:pulled], strict=True)),
            dict(zip(self._kept.sizes, arrays[pulled:], strict=True)),
        )
        self.initialized = True
        self.version += 1

    def restore(self, plan: bytes, arrays: Sequence[Array], version: int) -> None:
        """Take up a plan and values where another process left them."""
        self.take_plan(plan)
        self.set(arrays)
        self.version = version

    def apply(self, arrays: Sequence[Array]) -> None:
        """Run the update on what was pushed."""
        self._some_rows().apply(dict(zip(self._pushed.sizes, arrays, strict=True)))
        self.version += 1

    def add(self, arrays: Sequence[Array]) -> None:
        """Add a push to those of its round, which `apply_mean` applies."""
        if not self._added:
            self._sums = self._sums or [np.empty_like(array) for array in arrays]
        for total, array in zip(self._sums, arrays, strict=True):
            if self._added and array.dtype.kind == "b":
                total &= array
            elif self._added and array.dtype.kind not in "iu":
                total += array
            else:
                total[:] = array
        self._added += 1

    def apply_mean(self) -> bool:
        """Run the update once on the mean of the pushes of a round, and return whether there are any.

        Of integers, those of the last push count; what is true or false must be true in all pushes.
        """
        if self._added > 1:
            for total in self._sums:
                if total.dtype.kind not in "biu":
                    total /= total.dtype.type(self._added)
        if not self._added:
            return False
        self._added = 0
        self.apply(self._sums)
        return True

    def pulled(self) -> tuple[Array, ...]:
        """Return what workers read, in the order of the dtypes' names."""
        return tuple(self._some_rows().pulled().values())

    def everything(self) -> tuple[Array, ...]:
        """Return what workers read, and what only updates read and write."""
        return (*self.pulled(), *self._some_rows().kept().values())

    def by_name(self) -> dict[str, Array]:
        """Return all arrays by their names in the plan, without copies."""
        rows = self._some_rows()
        return {**self._pulled.unpack(rows.pulled()), **self._kept.unpack(rows.kept())}

    def _some_rows(self) -> Rows:
        if self._rows is None:
            raise RefusedError("this server has no plan yet. Offer one first")
        return self._rows
