"""Apply exported updates to a server's values. Only the modules called `updates` import JAX here."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import jax
import jax.export
import numpy as np

from muster._arrays import dtype_named
from muster.ps._flat_layout import Array, Flat, FlatLayout
from muster.ps._memory import memory_bytes
from muster.ps._plan import ArraySpec, Plan

_Device = dict[str, jax.Array]


def versions() -> dict[str, str]:
    """Return the versions that a server and its workers must share to understand an exported update."""
    return {"jax": jax.__version__}


class CompiledRows:
    """The values of a plan, on a device, and its compiled update: the `Rows` of a server.

    What is returned for sending is the memory of the values itself. The update writes in place where nobody
    holds that memory any more, and else into new memory: JAX donates no buffer that NumPy's arrays refer to.

    Args:
        plan: The plan.

    Raises:
        ValueError: Its update is none, or does not fit its arrays, or the arrays take more memory than there
            is, or JAX cannot hold them; the text is a clause about the plan.
    """

    def __init__(self, plan: Plan) -> None:
        self._layouts = [FlatLayout(each) for each in (plan.pulled, plan.kept, plan.pushed)]
        specs = (*plan.pulled, *plan.kept, *plan.pushed)
        require_room("its arrays and one push", specs)
        require_dtypes(specs)
        self._pulled: _Device = {}
        self._kept: _Device = {}
        self._update = None
        if plan.update:
            self._update = _compile(plan.update, self._layouts)

    def set(self, pulled: Flat, kept: Flat) -> None:
        """Take copies of new values."""
        self._pulled, self._kept = _to_device(pulled), _to_device(kept)

    def pulled(self) -> Flat:
        """Return what workers read, without a copy."""
        return _to_host(self._pulled)

    def kept(self) -> Flat:
        """Return what only updates read and write, without a copy."""
        return _to_host(self._kept)

    def apply(self, pushed: Flat) -> None:
        """Run the update, and wait for it."""
        if self._update is not None:
            self._pulled, self._kept = self._update(self._pulled, self._kept, pushed)
            # What was pushed may be read in place, and lies where the next push will be received.
            jax.block_until_ready((self._pulled, self._kept))


def require_room(what: str, specs: Collection[ArraySpec], held: int = 0) -> None:
    """Raise ValueError if this machine cannot hold some arrays.

    Args:
        what: What they are, for the text.
        specs: The arrays.
        held: The bytes that it holds already.
    """
    needed = sum(spec.nbytes for spec in specs)
    if needed and held + needed > (limit := memory_bytes()):
        largest = max(specs, key=lambda spec: spec.nbytes)
        beside = f" beside {held / 1e9:.1f} GB that are there" if held else ""
        raise ValueError(
            f"{what} take {needed / 1e9:.1f} GB{beside}, of which {largest} has "
            f"{largest.nbytes / 1e9:.1f} GB, and this server has {limit / 1e9:.1f} GB of memory. Give the "
            "job more parameter servers, and divide large variables among them by a partitioner"
        )


def require_dtypes(specs: Iterable[ArraySpec]) -> None:
    """Raise ValueError if JAX would hold an array in another dtype, or not at all."""
    for spec in specs:
        dtype = dtype_named(spec.dtype)
        try:
            holds = jax.device_put(np.empty(0, dtype)).dtype == dtype
        except TypeError:
            holds = False
        if not holds:
            raise ValueError(
                f"its array {spec} has a dtype that JAX does not hold in this server. Set jax_enable_x64 in "
                "all tasks if it has 64 bits, or choose another dtype"
            )


def deserialized(update: bytes) -> jax.export.Exported:
    """Return an exported update; raises ValueError if it is none."""
    try:
        return jax.export.deserialize(bytearray(update))
    except Exception as exc:  # flatbuffers has no exception of its own for bytes that are something else
        raise ValueError(f"its update of {len(update)} bytes is no exported function of JAX: {exc}") from exc


def _compile(update: bytes, layouts: list[FlatLayout]) -> jax.stages.Compiled:
    exported = deserialized(update)
    pulled, kept, pushed = ({name: _shape(name, each.sizes[name]) for name in each.sizes} for each in layouts)
    _check("takes", exported.in_tree, exported.in_avals, ((pulled, kept, pushed), {}))
    _check("returns", exported.out_tree, exported.out_avals, (pulled, kept))
    try:
        return jax.jit(exported.call, donate_argnums=(0, 1)).lower(pulled, kept, pushed).compile()
    except Exception as exc:  # of XLA's, and of JAX for another platform
        raise ValueError(f"its update cannot be compiled: {exc}") from exc


def _shape(name: str, size: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((size,), dtype_named(name))


def _check(verb: str, structure: Any, arrays: Sequence[Any], planned: Any) -> None:
    """Raise ValueError if the arguments or results of an update are not those of its plan."""
    same_structure = structure == jax.tree.structure(planned)
    require_same(f"its update {verb}", arrays, jax.tree.leaves(planned), "the plan", same_structure)


def require_same(
    what: str, given: Sequence[Any], wanted: Sequence[Any], whose: str, same_structure: bool = True
) -> None:
    """Raise ValueError if arrays have other shapes or dtypes than they are to have.

    Args:
        what: What they are given for, for the text.
        given: The arrays, or what has a shape and a dtype like them.
        wanted: What they are to be.
        whose: What says so.
        same_structure: Whether they come in the same structure.
    """
    theirs, ours = ([(tuple(each.shape), each.dtype) for each in some] for some in (given, wanted))
    if theirs != ours or not same_structure:
        said, planned = (
            ", ".join(f"{dtype}{list(shape)}" for shape, dtype in each) or "none" for each in (theirs, ours)
        )
        raise ValueError(f"{what} other arrays than {whose} has: {said}; {whose} has {planned}")


def _to_device(flat: Flat) -> _Device:
    # JAX may keep memory that it can use in place, and this is the connection's.
    return {name: jax.device_put(array.copy()) for name, array in flat.items()}


def _to_host(values: _Device) -> dict[str, Array]:
    return {name: np.asarray(array) for name, array in values.items()}
