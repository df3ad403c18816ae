"""Values that an exported update changes: the only module of parameter servers that imports JAX."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.export
import numpy as np

from muster._arrays import dtype_named
from muster.ps._flat_layout import Array, Flat, FlatLayout
from muster.ps._memory import memory_bytes
from muster.ps._plan import Plan

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
        _require_room(plan, sum(layout.nbytes for layout in self._layouts))
        _require_dtypes(plan)
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


def _require_room(plan: Plan, needed: int) -> None:
    """Raise ValueError if this machine cannot hold the values and one push."""
    if needed > (limit := memory_bytes()):
        largest = max((*plan.pulled, *plan.kept, *plan.pushed), key=lambda spec: spec.nbytes)
        raise ValueError(
            f"its arrays and one push take {needed / 1e9:.1f} GB, of which {largest} has "
            f"{largest.nbytes / 1e9:.1f} GB, and this server has {limit / 1e9:.1f} GB of memory. Give the "
            "job more parameter servers, and divide large variables among them by a partitioner"
        )


def _require_dtypes(plan: Plan) -> None:
    """Raise ValueError if JAX would hold an array in another dtype, or not at all."""
    for spec in (*plan.pulled, *plan.kept, *plan.pushed):
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


def _compile(update: bytes, layouts: list[FlatLayout]) -> jax.stages.Compiled:
    try:
        exported = jax.export.deserialize(bytearray(update))
    except Exception as exc:  # flatbuffers has no exception of its own for bytes that are something else
        raise ValueError(f"its update of {len(update)} bytes is no exported function of JAX: {exc}") from exc
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
    here, there = ([(each.shape, each.dtype) for each in some] for some in (jax.tree.leaves(planned), arrays))
    if structure != jax.tree.structure(planned) or here != there:
        ours, theirs = (
            ", ".join(f"{dtype}{list(shape)}" for shape, dtype in each) or "none" for each in (here, there)
        )
        raise ValueError(f"its update {verb} other arrays than the plan has: {theirs}; the plan has {ours}")


def _to_device(flat: Flat) -> _Device:
    # JAX may keep memory that it can use in place, and this is the connection's.
    return {name: jax.device_put(array.copy()) for name, array in flat.items()}


def _to_host(values: _Device) -> dict[str, Array]:
    return {name: np.asarray(array) for name, array in values.items()}
