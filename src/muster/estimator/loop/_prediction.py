"""Handing out predictions: those asked for, an example at a time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax


def checked_keys(predictions: Any, keys: str | Sequence[str] | None) -> list[str] | None:
    if keys is None:
        return None
    wanted = [keys] if isinstance(keys, str) else list(keys)
    if not isinstance(predictions, Mapping):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    found = [key for key in wanted if key in predictions]
    if not found:
        raise ValueError(f"Expected to run at least one output from {predictions.keys()}, provided {wanted}.")
    return found


def single_examples(predictions: Any) -> Iterator[Any]:
    leaves, structure = jax.tree.flatten(predictions)
    lengths = {leaf.shape[0] if leaf.ndim else None for leaf in leaves}
    if len(lengths) != 1 or None in lengths:
        shapes = [leaf.shape for leaf in leaves]
        raise ValueError(
            f"Batch length of predictions should be same; their shapes are {shapes}. Give a row for each "
            "example, or call predict with yield_single_examples=False."
        )
    for row in zip(*leaves, strict=True):
        yield jax.tree.unflatten(structure, row)
