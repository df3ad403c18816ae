"""The arrays and functions of a store, and the checks of what is asked of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from muster._text import printable
from muster.ps._flat_layout import Array, Flat, FlatLayout
from muster.ps._plan import ArraySpec
from muster.ps._replies import RefusedError
from muster.ps.store._messages import Signature
from muster.ps.store._stored import StoredFunction, check_function


class CompiledFunction(Protocol):
    """A function on a device. What it returns is never changed afterwards."""

    def pull(self, values: Mapping[str, Any]) -> Flat:
        """Return what workers take, of the values by name."""

    def apply(self, values: dict[str, Any], pushed: Flat) -> Flat:
        """Replace the values that the update changes, and return what workers take then."""


class Device(Protocol):
    """Where values live."""

    def check(self, specs: Sequence[ArraySpec], held: int) -> None:
        """Raise ValueError, with a clause, if it cannot hold arrays beside some bytes that it holds."""

    def put(self, array: Array) -> Any:
        """Return a copy as a value, which is never changed but by updates."""

    def get(self, value: Any) -> Array:
        """Return the array of a value, without a copy; it is never changed afterwards."""

    def compile(self, function: StoredFunction, held: Mapping[str, ArraySpec]) -> CompiledFunction:
        """Return a function of values that are held; raises ValueError with a clause about it."""


class Description(msgspec.Struct, frozen=True):
    """What a store consists of, beside its values."""

    arrays: tuple[ArraySpec, ...] = ()
    functions: tuple[StoredFunction, ...] = ()


class _Known:
    """A function that is registered."""

    def __init__(self, function: StoredFunction, held: Mapping[str, ArraySpec], device: Device) -> None:
        self.function = function
        taken = tuple(held[name] for name in function.takes)
        self.signature = Signature(taken, function.pushed, changes=bool(function.updates))
        self.pushed = FlatLayout(function.pushed)
        self.compiled = device.compile(function, held)


class Contents:
    """Holds arrays and functions by name.

    Each method raises RefusedError, with a clause, if what is asked of it is wrong; it has changed nothing
    then.

    Args:
        device: Where values live.

    Attributes:
        specs: The arrays, by name.
        nbytes: Their size in bytes.
    """

    def __init__(self, device: Device) -> None:
        self.specs: dict[str, ArraySpec] = {}
        self.nbytes = 0
        self._device = device
        self._values: dict[str, Any] = {}
        self._functions: dict[str, _Known] = {}

    @property
    def functions(self) -> int:
        """How many functions there are."""
        return len(self._functions)

    def create(self, arrays: Sequence[tuple[ArraySpec, Array]]) -> None:
        """Take arrays, but for those that are here already."""
        for spec, _ in arrays:
            if (known := self.specs.get(spec.name)) not in (None, spec):
                raise RefusedError(f"its array {_said(spec)} is here already, as {_said(known)}")
        new = [(spec, array) for spec, array in arrays if spec.name not in self.specs]
        try:
            self._device.check([spec for spec, _ in new], self.nbytes)
        except ValueError as exc:
            raise RefusedError(printable(str(exc))) from exc
        for spec, array in new:
            self._values[spec.name] = self._device.put(array)
            self.specs[spec.name] = spec
            self.nbytes += spec.nbytes

    def assign(self, arrays: Sequence[tuple[ArraySpec, Array]]) -> None:
        """Give arrays other values."""
        self._require(spec.name for spec, _ in arrays)
        for spec, _ in arrays:
            if spec != (known := self.specs[spec.name]):
                raise RefusedError(f"its array {_said(spec)} is {_said(known)} here")
        for spec, array in arrays:
            self._values[spec.name] = self._device.put(array)

    def delete(self, names: Sequence[str]) -> None:
        """Forget arrays, if they are here, and the functions that need them."""
        gone = {name for name in names if name in self.specs}
        for name in gone:
            self.nbytes -= self.specs.pop(name).nbytes
            del self._values[name]
        self._functions = {
            fingerprint: known
            for fingerprint, known in self._functions.items()
            if gone.isdisjoint(known.function.names)
        }

    def read(self, names: Sequence[str]) -> list[tuple[ArraySpec, Array]]:
        """Return arrays, without copies; they are never changed afterwards."""
        self._require(names)
        return [(self.specs[name], self._device.get(self._values[name])) for name in names]

    def register(self, function: StoredFunction) -> None:
        """Take a function."""
        if (known := self._functions.get(function.fingerprint)) is not None:
            if msgspec.structs.replace(known.function, update=b"") != msgspec.structs.replace(
                function, update=b""
            ):  # equal updates may differ in the places of the source that they name
                raise RefusedError("another function with its fingerprint is here already")
            return
        try:
            check_function(function, self.specs)
            self._device.check(function.pushed, self.nbytes)
            self._functions[function.fingerprint] = _Known(function, self.specs, self._device)
        except ValueError as exc:
            raise RefusedError(f"its function cannot be used: {printable(str(exc))}") from exc

    def signature(self, fingerprint: str) -> Signature | None:
        """Return what workers take and push for a function; None if it is not here."""
        known = self._functions.get(fingerprint)
        return None if known is None else known.signature

    def pull(self, fingerprint: str) -> tuple[Array, ...]:
        """Return what workers take for a function."""
        return tuple(self._function(fingerprint).compiled.pull(self._values).values())

    def apply(self, fingerprint: str, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Run the update of a function on what was pushed, and return what workers take then."""
        known = self._function(fingerprint)
        pushed = dict(zip(known.pushed.sizes, arrays, strict=True))
        return tuple(known.compiled.apply(self._values, pushed).values())

    def check_pushed(self, fingerprint: str, given: Sequence[tuple[str, int]]) -> None:
        """Raise RefusedError if other buffers are to be pushed than a function takes.

        Args:
            fingerprint: The function.
            given: The name of the dtype and the number of elements of each buffer.
        """
        known = self._function(fingerprint)
        if not known.function.updates:
            raise RefusedError("its function changes nothing on this server. Pull instead")
        wanted = list(known.pushed.sizes.items())
        if list(given) != wanted:
            described, planned = (
                ", ".join(f"{size} of {dtype}" for dtype, size in each) or "none" for each in (given, wanted)
            )
            raise RefusedError(
                f"other elements are pushed than its function takes: {printable(described)}; it takes "
                f"{planned}"
            )

    def description(self) -> Description:
        """Return what this consists of, beside the values."""
        functions = tuple(known.function for known in self._functions.values())
        return Description(tuple(self.specs.values()), functions)

    def values(self) -> tuple[Array, ...]:
        """Return all arrays, flat, in the order of the description; they are never changed afterwards."""
        return tuple(self._device.get(value).reshape(-1) for value in self._values.values())

    def restore(self, description: Description, values: Sequence[Array]) -> None:
        """Take up what another process has described, with its values."""
        arrays = zip(description.arrays, values, strict=True)
        self.create([(spec, array.reshape(spec.shape)) for spec, array in arrays])
        for function in description.functions:
            self.register(function)

    def _function(self, fingerprint: str) -> _Known:
        known = self._functions.get(fingerprint)
        if known is None:
            raise RefusedError(
                f"there is no function {printable(fingerprint)} on this server. The coordinator registers "
                "it first"
            )
        return known

    def _require(self, names: Any) -> None:
        for name in names:
            if name not in self.specs:
                raise RefusedError(f"there is no array {printable(name)} on this server. Create it first")


def _said(spec: Any) -> str:
    return printable(str(spec))
