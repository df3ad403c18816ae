"""`VocabInfo`: warm-start a table after its vocabulary has changed."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from muster._arrays import dtype_named
from muster._errors import CheckpointMismatchError
from muster._keras import keras
from muster._paths import local_path
from muster.checkpoint import MappedArray
from muster.feature_column import vocabulary_lines
from muster.program.variables import VariableSpec


@dataclass(frozen=True)
class VocabInfo:
    """Maps the rows of a variable from an old vocabulary to a new one.

    Entries of the new vocabulary that the old one has keep their rows. The rows of others, and those of the
    buckets for what no vocabulary has, start from an initializer.

    Args:
        new_vocab: The file of the new vocabulary, with an entry a line.
        new_vocab_size: How many of its entries count.
        num_oov_buckets: The number of rows beyond the vocabulary.
        old_vocab: The file of the vocabulary that the checkpoint was trained with.
        old_vocab_size: How many of its entries count; -1 for all.
        backup_initializer: A Keras initializer, or its name, for rows of entries that the old vocabulary
            lacks; None for zeros.
        axis: 0 if rows belong to entries, as in embeddings and linear weights; 1 for columns, as in the last
            layer of a classifier whose labels have a vocabulary.

    Raises:
        ValueError: A file is not given, a size is out of range, or the axis is neither 0 nor 1.

    Source: ``VocabInfo`` (tensorflow/python/training/warm_starting_util.py).
    """

    new_vocab: str | os.PathLike[str]
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: str | os.PathLike[str]
    old_vocab_size: int = -1
    backup_initializer: Any = None
    axis: int = 0

    def __post_init__(self) -> None:
        if self.axis not in (0, 1):
            raise ValueError(
                f"The only supported values for the axis argument are 0 and 1. Provided axis: {self.axis}"
            )
        if not self.new_vocab or not self.old_vocab:
            raise ValueError(f"Both new_vocab and old_vocab must be files: got {self}.")
        if self.new_vocab_size < 1 or self.num_oov_buckets < 0 or self.old_vocab_size < -1:
            raise ValueError(
                f"new_vocab_size must be >= 1, num_oov_buckets >= 0, and old_vocab_size >= -1: got {self}."
            )
        object.__setattr__(self, "new_vocab", local_path(self.new_vocab))
        object.__setattr__(self, "old_vocab", local_path(self.old_vocab))

    def start_value(
        self, variable: VariableSpec, old: np.ndarray[Any, Any] | MappedArray
    ) -> np.ndarray[Any, Any]:
        """Return a variable's value for the new vocabulary.

        Args:
            variable: The variable.
            old: Its value in the checkpoint.

        Raises:
            CheckpointMismatchError: Their shapes do not fit the vocabularies, or each other.
            ValueError: A vocabulary is missing, not UTF-8, or too short.
        """
        new_entries = _entries(self.new_vocab, self.new_vocab_size, variable.path)
        old_entries = _entries(self.old_vocab, self.old_vocab_size, variable.path)
        self._check_shapes(variable, old.shape, len(old_entries))
        places = {entry: place for place, entry in enumerate(old_entries)}
        taken = np.array([places.get(entry, -1) for entry in new_entries] + [-1] * self.num_oov_buckets)
        if isinstance(old, MappedArray) and self.axis == 0:
            value = old.astype(dtype_named(variable.dtype)).rows(np.maximum(taken, 0))
        else:
            value = np.moveaxis(np.asarray(old), self.axis, 0)[taken].astype(dtype_named(variable.dtype))
        missing = np.flatnonzero(taken < 0)
        if self.backup_initializer is None:
            value[missing] = 0
        else:
            shape = list(variable.shape)
            shape[self.axis] = len(missing)
            initial = keras.initializers.get(self.backup_initializer)(tuple(shape), dtype=variable.dtype)
            value[missing] = np.moveaxis(np.asarray(initial), self.axis, 0)
        return np.ascontiguousarray(np.moveaxis(value, 0, self.axis))

    def _check_shapes(self, variable: VariableSpec, old: tuple[int, ...], old_entries: int) -> None:
        wanted = list(variable.shape)
        if len(wanted) <= self.axis or wanted[self.axis] != self.new_vocab_size + self.num_oov_buckets:
            raise CheckpointMismatchError(
                f"The variable {variable} does not have {self.new_vocab_size} entries and "
                f"{self.num_oov_buckets} buckets on its axis {self.axis}, as its VocabInfo says."
            )
        others = [*wanted[: self.axis], *wanted[self.axis + 1 :]]
        if len(old) != len(wanted) or [*old[: self.axis], *old[self.axis + 1 :]] != others:
            raise CheckpointMismatchError(
                f"The variable {variable} cannot be warm-started: the checkpoint has it with the shape "
                f"{old}. Only its axis {self.axis} may differ."
            )
        if old[self.axis] < old_entries:
            raise CheckpointMismatchError(
                f"The variable {variable} cannot be warm-started: the checkpoint has {old[self.axis]} "
                f"entries on its axis {self.axis}, and the vocabulary {self.old_vocab} has {old_entries}. "
                "Set old_vocab_size to the number of those that the checkpoint was trained with."
            )


def _entries(path: str | os.PathLike[str], size: int, variable: str) -> Sequence[str]:
    lines = vocabulary_lines(os.fspath(path), variable)
    if len(lines) < size:
        raise ValueError(
            f"The vocabulary {os.fspath(path)} of {variable} has {len(lines)} entries, fewer than {size}."
        )
    return lines if size == -1 else lines[:size]
