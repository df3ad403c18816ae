"""Compare workers that meet: how far each has come, its last result and its programs; no sockets."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from muster._errors import MismatchError
from muster.distribute.workers._workers import HostArray, ReplicaShare
from muster.program import decode, encode

# How many bytes the arrays of a result may have that is kept for workers that come later.
MOST_RECORDED = 1 << 18


class StepReached(NamedTuple):
    """How far a worker has come when it meets others.

    Attributes:
        steps: The steps that its state has.
        collectives: The collectives that it has completed.
        in_step: Whether it is in a step, which it can make again.
        joins: Whether it has no state yet.
    """

    steps: int
    collectives: int
    in_step: bool
    joins: bool


class CompiledPrograms:
    """Remembers the programs that a worker has compiled, to compare them with those of others."""

    def __init__(self) -> None:
        self._by_shapes: dict[str, set[str]] = {}

    def note(self, shapes: str, text: str) -> None:
        """Note a program by the shapes of its arguments and its text, which may be long."""
        key, program = (hashlib.sha256(each.encode()).hexdigest()[:32] for each in (shapes, text))
        self._by_shapes.setdefault(key, set()).add(program)

    def to_json(self) -> dict[str, list[str]]:
        """Return it for others, as JSON."""
        return {shapes: sorted(programs) for shapes, programs in self._by_shapes.items()}

    def require_those(self, theirs: Mapping[str, Sequence[str]]) -> None:
        """Check that others would take the same steps, from what `to_json` has returned there.

        Raises:
            MismatchError: For arguments of the same shapes they have compiled something else.
        """
        for shapes, programs in self._by_shapes.items():
            if shapes in theirs and not programs <= {*theirs[shapes]}:
                raise MismatchError(
                    "The step of this worker is another than that of those that it joins, such as one with "
                    "another loss or rate of dropout. Start it with the same program and arguments."
                )


def source_of(places: Sequence[StepReached]) -> int | None:
    """Return the rank of the first worker that has come furthest; None if none has a state."""
    with_state = [rank for rank, place in enumerate(places) if not place.joins]
    return min(with_state, key=lambda rank: (*(-each for each in places[rank][:2]), rank), default=None)


def behind_by_a_result(places: Sequence[StepReached]) -> list[int]:
    """Return the ranks of those who need the result of the last collective of the one that is furthest.

    Who is in the same step as that one makes the step again, like it, however far both have come in it. Who
    has not completed the step before it needs the result of its last collective, and so does who is in none.

    Raises:
        MismatchError: Somebody lacks more than one result.
    """
    source = source_of(places)
    if source is None:
        return []
    newest = places[source]
    behind = [
        rank
        for rank, place in enumerate(places)
        if not place.joins
        and (place.steps < newest.steps or (not place.in_step and place.collectives < newest.collectives))
    ]
    if any(newest.collectives - places[rank].collectives != 1 for rank in behind):
        raise MismatchError(
            f"The workers have come to different places, and cannot go on together: {places}."
        )
    return behind


def shares_of(total: int, workers: int) -> list[ReplicaShare]:
    """Divide virtual replicas among workers, by rank: consecutive ones; surplus workers have none."""
    ends = [0]
    for rank in range(workers):
        ends.append(ends[-1] + total // workers + (rank < total % workers))
    return [ReplicaShare(ends[rank], ends[rank + 1] - ends[rank], total) for rank in range(workers)]


def digest_of(batch: Any) -> str:
    """Return a checksum of the arrays of a batch."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(batch):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()[:16]


def packed_result(result: Any) -> HostArray:
    """Return the result of a collective as bytes: JSON values, or arrays."""
    arrays = [each for each in result if isinstance(each, np.ndarray)]
    if len(arrays) < len(result) or not arrays:
        head, parts = [None, result], []
    else:
        head = [[[list(each.shape), each.dtype.name] for each in arrays], None]
        parts = [np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in arrays]
    text = np.frombuffer(json.dumps(head).encode(), np.uint8)
    size = np.frombuffer(len(text).to_bytes(8, "big"), np.uint8)
    return np.concatenate([size, text, *parts])


def unpacked_result(packed: HostArray) -> Any:
    """Return what `packed_result` was given."""
    end = 8 + int.from_bytes(packed[:8].tobytes(), "big")
    kinds, value = json.loads(packed[8:end].tobytes())
    if kinds is None:
        return value
    arrays = []
    for shape, name in kinds:
        dtype = np.dtype(name)
        size = int(np.prod(shape)) * dtype.itemsize
        arrays.append(packed[end : end + size].copy().view(dtype).reshape(shape))
        end += size
    return arrays


def recorded(result: Any) -> Any:
    """Return the result of a call as msgpack has it, for workers that come later and leave the call out.

    Args:
        result: A plain value, such as a number, or arrays of any shape and numeric dtype in a dict.

    Raises:
        TypeError: It is not plain.
        ValueError: It is too large for a record.
    """
    arrays: list[HostArray] = []
    value = encode(result, arrays)
    if (nbytes := sum(each.nbytes for each in arrays)) > MOST_RECORDED:
        raise ValueError(f"its arrays have {nbytes} bytes, and a record has {MOST_RECORDED} at most.")
    return [value, [[each.dtype.name, list(each.shape), each.tobytes()] for each in arrays]]


def of_record(record: Any) -> Any:
    """Return what `recorded` was given."""
    value, packed = record
    arrays = [np.frombuffer(data, np.dtype(name)).reshape(shape).copy() for name, shape, data in packed]
    return decode(value, arrays)
