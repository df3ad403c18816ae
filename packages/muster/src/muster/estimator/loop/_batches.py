"""The batches that steps take, made of the elements of an input_fn."""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import jax
import numpy as np

from muster._arrays import require_numbers
from muster._errors import DatasetError
from muster.data import Dataset, as_arrays, dataset_of_batches, refuse_whole
from muster.distribute.input import Convert, OwnInput, Pipeline
from muster.estimator._estimator_spec import ModeKeys
from muster.estimator.loop._batch import StepBatch
from muster.estimator.loop._host_part import HostPart, is_uneven, named
from muster.program import is_wide

Prepare: TypeAlias = Callable[[Any, Any], tuple[Any, ...]]
"""Turns features, and labels or None, into arrays of numbers: on the host, each example by itself."""


class WideIntegers:
    """Knows which arrays of an input have integers that a step cannot take, as its first batch shows it."""

    def __init__(self) -> None:
        self._keys: frozenset[str] | None = None

    def of(self, batch: StepBatch) -> frozenset[str]:
        """Return the names of these arrays, in the first batch that this was called with."""
        if self._keys is None:
            self._keys = frozenset(key for key, value in named(batch).items() if is_wide(value))
        return self._keys


def own_input(
    returned: Sequence[Any],
    mode: ModeKeys,
    per_step: int = 1,
    *,
    positions: Sequence[Mapping[str, Any]] | None = None,
    seed: int | None = None,
    past_end: bool = False,
    prepare: Prepare | None = None,
    host: HostPart | None = None,
    returned_for: Callable[[int], Any] | None = None,
    first_number: int = 0,
) -> OwnInput:
    """Open what an input_fn returned for each pipeline that this worker reads.

    Args:
        returned: For each a ``Dataset`` of ``(features, labels)`` or of features, a loader or generator of
            such batches, or one such element, of arrays or tables. In training one element is repeated
            without end.
        mode: The mode of the input_fn. In the mode PREDICT labels are left out.
        per_step: The number of batches that a step takes of each.
        positions: Where each goes on; None to begin.
        seed: Seeds shuffles that have no seed of their own; None leaves them random.
        past_end: Whether a position may lie beyond the end: other workers may have had more batches.
        prepare: The host's part of the model, for each batch; None for none. It is called where the input
            pipeline makes batches: ahead of the step, on a thread, if the pipeline has a `prefetch`.
        host: The host's part of a model whose columns are found as it is traced, without a ``prepare``.
        returned_for: Returns what the input_fn returns for another pipeline, by its number, which this worker
            may take over; None if it takes over none.
        first_number: The number of the first pipeline.

    Raises:
        DatasetError: A step cannot compute with the first batch: it has text, objects, or unequal lengths.
        PositionError: A position is another pipeline's.
        ValueError: An element is a tuple that is not a pair.
    """

    def opened(each: Any, position: Mapping[str, Any] | None) -> Pipeline:
        return Pipeline(
            _as_dataset(each, mode),
            position,
            # A worker's own: Python's random numbers may be the chief's, and its data another worker's.
            seed=secrets.randbits(63) if seed is None else seed,
            convert=converting(mode, prepare, host),
            past_end=past_end,
        )

    with ExitStack() as undo:
        pipelines = []
        for place, each in enumerate(returned):
            pipelines.append(opened(each, None if positions is None else positions[place]))
            undo.callback(pipelines[-1].close)
        own = OwnInput(
            pipelines,
            per_step,
            check=check_batch,
            open_pipeline=None
            if returned_for is None
            else lambda number, position: opened(returned_for(number), position),
            first_number=first_number,
        )
        undo.pop_all()
    return own


def converting(mode: ModeKeys, prepare: Prepare | None, host: HostPart | None) -> Convert:
    """Return a function that makes batches of elements that are read together.

    It is a function of its own: what makes batches ahead must not keep their reader alive.
    """
    return partial(_batches_of, mode=mode, prepare=prepare, host=host, wide=WideIntegers())


def _as_dataset(returned: Any, mode: ModeKeys) -> Dataset:
    dataset = dataset_of_batches(returned)
    if dataset is not None:
        return dataset
    try:
        refuse_whole(returned)
        element = as_arrays(returned)
    except TypeError as exc:
        raise TypeError(
            "input_fn must return a Dataset, arrays or tables of features and labels, or their batches. "
            f"{exc}"
        ) from exc
    if not jax.tree.leaves(element) or isinstance(returned, bool | int | float | complex | str | bytes):
        raise TypeError(
            "input_fn must return a Dataset, arrays or tables of features and labels, or their batches, got "
            f"{type(returned).__name__}: {returned!r}."
        )
    dataset = Dataset.from_tensors(element)
    return dataset.repeat() if mode == ModeKeys.TRAIN else dataset


def _batches_of(
    elements: list[Any], *, mode: ModeKeys, prepare: Prepare | None, host: HostPart | None, wide: WideIntegers
) -> Iterable[StepBatch]:
    """Return the batches of elements that are read together."""
    batches = [_batch(element, mode) for element in elements]
    if mode == ModeKeys.PREDICT:
        given = [_given(batch.features) for batch in batches]
        made = _prepared(batches, prepare, host, wide)
        return (_checked(batch)._replace(given=own) for batch, own in zip(made, given, strict=True))
    return map(_checked, _prepared(batches, prepare, host, wide))


def _given(features: Any) -> Mapping[str, Any]:
    """Return features by key; those without keys under an empty one."""
    return features if isinstance(features, Mapping) else {"": features}


def _prepared(
    batches: list[StepBatch], prepare: Prepare | None, host: HostPart | None, wide: WideIntegers
) -> Iterable[StepBatch]:
    """Return batches with the host's part of the model."""
    if prepare is None and host is not None and batches:
        keys = wide.of(batches[0])
        if host.concerns(batches[0], keys):
            prepare = partial(host.prepare, wide=keys)
    if prepare is None:
        return batches
    leaves = jax.tree.leaves(batches, is_leaf=is_uneven)
    if leaves and len(batches) > 1 and all(map(_joinable, leaves)):
        # Small batches: the host's calls for each take longer than its data.
        with suppress(ValueError):  # The batch that is wrong raises it again, in its turn.
            joined = jax.tree.map(lambda *parts: np.concatenate(parts), *batches)
            return _divided(StepBatch(*prepare(joined.features, joined.labels)), batches)
    return (StepBatch(*prepare(batch.features, batch.labels)) for batch in batches)


def _batch(element: Any, mode: ModeKeys) -> StepBatch:
    if isinstance(element, tuple) and not hasattr(element, "_fields"):
        if len(element) != 2:
            raise ValueError(
                "input_fn should return (features, labels) as a len 2 tuple; "
                f"an element of it has length {len(element)}."
            )
        features, labels = element
    else:
        features, labels = element, None
    return StepBatch(features, None if mode == ModeKeys.PREDICT else labels)


def _joinable(leaf: Any) -> bool:
    """Return whether the host's part of a model makes the same of a batch alone and joined with others.

    The widths of what it makes of several values an example may depend on all examples of a batch.
    """
    return (
        isinstance(leaf, np.ndarray) and leaf.ndim > 0 and (leaf.dtype.kind == "f" or leaf.size == len(leaf))
    )


def _divided(joined: StepBatch, batches: list[StepBatch]) -> list[StepBatch]:
    """Divide what was made of batches that were joined.

    Raises:
        ValueError: It has not as many rows as they.
    """
    stops = list(accumulate(len(jax.tree.leaves(batch)[0]) for batch in batches))
    leaves, structure = jax.tree.flatten(joined)
    if any(leaf.shape[:1] != (stops[-1],) for leaf in leaves):
        raise ValueError("There are other rows.")
    spans = [slice(*span) for span in pairwise([0, *stops])]
    return [jax.tree.unflatten(structure, [leaf[span] for leaf in leaves]) for span in spans]


def _checked(batch: StepBatch) -> StepBatch:
    if len({shape[:1] for leaf in jax.tree.leaves(batch) if (shape := leaf.shape)}) > 1:
        check_batch(batch)  # raises
    return batch


def check_batch(batch: StepBatch) -> None:
    """Check that the parts of a batch are numbers, and equally many.

    Raises:
        DatasetError: They are not.
    """
    lengths: dict[int, str] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(batch._replace(given={})):
        name = jax.tree_util.keystr(path).removeprefix(".")
        array = np.asarray(leaf)
        require_numbers(name, array)
        if array.ndim:
            lengths.setdefault(array.shape[0], name)
    for name, part in (("labels", batch.labels), ("features", batch.features)):
        leaves = jax.tree.leaves(part)
        if leaves and not any(map(np.ndim, leaves)):
            raise DatasetError(
                f"The {name} have no axis of examples: an element of the dataset must be a batch. Call "
                "`dataset.batch(batch_size)`."
            )
    if len(lengths) > 1:
        parts = ", ".join(f"{name} has {length}" for length, name in lengths.items())
        raise DatasetError(f"The parts of a batch differ in length: {parts} examples.")
