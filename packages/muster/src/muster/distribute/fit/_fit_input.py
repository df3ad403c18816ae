"""Batches for ``fit``, ``evaluate`` and ``predict``: the same steps on all workers."""

import abc
import dataclasses
import itertools
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from muster._arrays import AnyArray, require_numbers
from muster._errors import DatasetError, MismatchError
from muster._keras import keras
from muster.data.sharding import describe_share
from muster.distribute.engine._split import (
    ReplicatedBatch,
    Split,
    UnevenBatch,
    UnevenWarning,
    unwrapped,
)
from muster.distribute.fit._agreement import Agreement
from muster.distribute.fit._fit_data import NO_LABELS, needs_labels
from muster.distribute.input import Position, StepInput
from muster.distribute.input._distributed_dataset import DistributedDataset
from muster.distribute.input._step_input import Orders
from muster.distribute.workers._meeting import digest_of
from muster.distribute.workers._randomness import random_state, set_random_state
from muster.distribute.workers._workers import Exchanged


class FitInput(StepInput, keras.utils.PyDataset):  # type: ignore[misc]
    """The input of steps of ``fit``, ``evaluate`` or ``predict``: in epochs, each a pass or a part of one.

    In place of a dataset, Keras takes the structure and number of batches from its interface, and hands its
    own iterator on to `catch_up`. A `position` is that after all batches that were drawn: steps are taken at
    once.

    Attributes:
        method: What the steps are of; the trainer says it.
        ends_epochs: Whether an epoch ends with a pass.
        says_end: Whether it is told elsewhere that data has ended too early.
    """

    method = "fit"
    ends_epochs: bool
    says_end = False

    @property
    def next_position(self) -> Position:
        """The position at which the next epoch begins."""
        return Position(random=random_state()) if self.ends_epochs else self.position()

    def __getitem__(self, index: int) -> Any:
        """Return the example, for its structure."""
        return unwrapped(self.example)

    @abc.abstractmethod
    def begin(self) -> None:
        """Start an epoch."""

    @abc.abstractmethod
    def go_on(self, position: Position) -> None:
        """Let the next pass continue from a position."""

    def take_again(self) -> None:
        """Let the last batch be the next one, for the workers that there are now.

        Raises:
            NotImplementedError: It is not known any more.
        """
        raise NotImplementedError(f"{type(self).__name__} is not for workers that come and go.")

    @property
    def next_unused(self) -> Position:
        """The position of the batch of the step that is under way, where workers come and go."""
        raise NotImplementedError(f"{type(self).__name__} is not for workers that come and go.")

    def digest(self) -> str | None:
        """Return a checksum of the batch of the step that is under way; None if workers need not compare."""
        return None

    def expect(self, digest: str | None) -> None:
        """Check the next batch by what `digest` has returned on another worker."""

    @abc.abstractmethod
    def catch_up(self, iterator: Iterator[Any]) -> None:
        """Begin the pass of one of Keras' iterators, unless it has begun."""


class KerasBatches(FitInput):
    """Draws global batches, the same on all workers, from Keras' iterators.

    Args:
        agreement: The agreement of the workers.
        split: Divides each batch among the replicas.
        per_epoch: The number of batches in an epoch; None for one pass.
    """

    example = None
    share = "the batches that all workers have"

    def __init__(self, agreement: Agreement, split: Split, per_epoch: int | None = None) -> None:
        super().__init__()
        self._agreement = agreement
        self._split = split
        self._uneven = UnevenWarning(split) if split.replicas > 1 else None
        # Nobody to agree with, and one replica: it takes batches as they are.
        self._is_alone = agreement.single and self._uneven is None
        self._checked = False
        self.ends_epochs = per_epoch is None
        self._start, self._drawn = Position(), 0
        self._pass: Iterator[Any] = iter(())
        self._saved: Position | None = None
        self._last: Any = None
        self._again = self._counted = False
        self._expected: str | None = None

    def position(self, steps: int | None = None) -> Position:
        return dataclasses.replace(self._start, drawn=self._drawn)

    @property
    def next_unused(self) -> Position:
        return dataclasses.replace(self._start, drawn=self._drawn - self._counted)

    def digest(self) -> str | None:
        return None if self._last is None else digest_of(self._last)

    def expect(self, digest: str | None) -> None:
        self._expected = digest

    def begin(self) -> None:
        self._checked = False
        if self._uneven is not None:
            self._uneven.begin()

    def go_on(self, position: Position) -> None:
        self._saved = position

    def catch_up(self, iterator: Iterator[Any]) -> None:
        if iterator is not self._pass:
            self._pass = iterator
            self._begin_pass(iterator)

    def __next__(self) -> Any:
        """Return the next batch as a worker batch.

        Raises:
            MismatchError: Workers have different batches.
            StopIteration: There is none.
        """
        if self._is_alone:
            if (batch := self._read()) is None:
                raise StopIteration
            self._drawn += 1
            return batch
        if self._again:
            batch, self._again = self._last, False
        else:
            batch, self._counted = self._read(), False
        if self._agreement.elastic:
            self._last = batch
        if self._expected is not None:
            self._require_expected()
        if not self._agreement.single:
            self._require_same(batch)
        if batch is None:
            raise StopIteration
        if not self._counted:
            self._drawn, self._counted = self._drawn + 1, True
        if self._uneven is None:
            return batch
        self._uneven.see(batch)
        return self._split.worker_batch(batch)

    def take_again(self) -> None:
        self._again = True

    def _read(self) -> Any:
        """Return the next batch of the pass; None at its end."""
        return next(self._pass, None)

    def _begin_pass(self, iterator: Iterator[Any]) -> None:
        """Begin a pass, or continue the saved one. Keras draws its order with the first batch."""
        saved, self._saved = self._saved, None
        if saved is not None:
            set_random_state([*saved.random])
            for _ in range(saved.drawn):
                next(iterator, None)
        self._start = saved or Position(random=random_state())
        self._drawn = self._start.drawn

    def _require_expected(self) -> None:
        """Check the first batch after this worker has joined others."""
        expected, self._expected = self._expected, None
        self._checked = True
        if self.digest() != expected:
            raise MismatchError(
                "This worker has other data than those that it joins. The program has to make the same data "
                "in every process, also in one that starts later: give random numbers a seed, such as by "
                "keras.utils.set_random_seed(...)."
            )

    def _require_same(self, batch: Any) -> None:
        """Check that all workers have this batch: its kind always, its contents once an epoch."""
        kinds = None
        if batch is not None:
            kinds = [f"{np.asarray(leaf).dtype}{list(np.shape(leaf))}" for leaf in jax.tree.leaves(batch)]
        digest = None if self._checked or batch is None else digest_of(batch)
        first, *rest = self._agreement.on(self.method, kinds, digest)
        self._checked = True
        for worker, theirs in enumerate(rest, start=1):
            if theirs[0] == first[0] and (theirs[1] == first[1] or None in (theirs[1], first[1])):
                continue
            ours, others = (
                "no batch" if k is None else f"a batch of {', '.join(k)}" for k in (first[0], theirs[0])
            )
            differ = f"{ours} and {others}" if first[0] != theirs[0] else "batches with other contents"
            raise MismatchError(
                f"In a step of {self.method}, worker 0 and worker {worker} have {differ}. The data for fit "
                "must yield the same global batches in the same order on all workers, which share each of "
                "them. Numbers of np.random, random and keras.random are the chief's on all workers from "
                "where the strategy is made: make it before the data. np.random.default_rng(...) and random "
                "numbers that were drawn earlier need a seed; sets of text have another order in each "
                "process, unless PYTHONHASHSEED is set. For workers that read different data, pass "
                "strategy.distribute_datasets_from_function(...)."
            )


# In place of the last batch, where none has been read since a step has ended.
_NOT_READ = object()

ENDLESS = (
    "This dataset repeats without end: say how many batches make an epoch, with steps_per_epoch "
    "(validation_steps, steps)."
)


def check_data(model: Any, data: Any, *, trains_or_tests: bool) -> None:
    """Check that a step can compute with the arrays among the data, and that a loss gets labels.

    Args:
        model: The model.
        data: A batch, or the arguments ``x`` and ``y``.
        trains_or_tests: Whether the model's loss is computed.

    Raises:
        DatasetError: An array holds text or objects, or there are no labels.
    """
    x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
    inputs, labels = (
        jax.tree.leaves(part, is_leaf=lambda each: hasattr(each, "__next__")) for part in (x, y)
    )
    for name, leaves in (("x", inputs), ("y", labels)):
        for leaf in leaves:
            if isinstance(leaf, np.ndarray):
                require_numbers(name, leaf)
    if (
        y is None
        and trains_or_tests
        and needs_labels(model)
        and inputs
        and all(isinstance(each, np.ndarray | jax.Array) for each in inputs)
    ):
        raise DatasetError(
            f"{NO_LABELS}: give `y`, or a dataset of (inputs, labels). The model was compiled "
            f"with the loss {model.loss!r}, which needs them."
        )


class DatasetBatches(FitInput):
    """Draws the batches of a dataset, pass after pass.

    Args:
        agreement: The agreement of the workers.
        dataset: The dataset.
        per_epoch: The number of batches in an epoch; None for one pass.
        class_weight: The weights of examples by class; None for no weights.
        count: The number of batches in a pass; None if it is not known.
        continues: Whether an epoch continues in the pass of the epoch before.
        split: Divides batches of all workers among the replicas.

    Raises:
        DatasetError: The dataset is empty.
        ValueError: The dataset has no end, and ``per_epoch`` is None.
    """

    def __init__(
        self,
        agreement: Agreement,
        dataset: DistributedDataset,
        per_epoch: int | None,
        class_weight: dict[int, float] | None = None,
        *,
        count: int | None = None,
        continues: bool = False,
        split: Split,
    ) -> None:
        super().__init__()
        self._split = split
        self._continues = continues
        self._agreement = agreement
        self._class_weight = class_weight
        self.ends_epochs = per_epoch is None
        self._count = count if agreement.single and per_epoch is None else None
        if dataset.endless and per_epoch is None:
            raise ValueError(ENDLESS)
        self._dataset = dataset
        random_before = random_state()
        self._seed = _new_seed()
        set_random_state(random_before)  # the first pass draws the same seed
        self._last: Any = _NOT_READ
        self._again = self._counted = False
        self._opened: Iterator[Any] | None = self._open(self._seed)
        first = next(self._opened, None)
        if first is None:
            raise DatasetError("The dataset is empty: there is nothing to train or evaluate on.")
        self._orders = self._begun()
        self.example = self._weighted(first)
        self._opened = itertools.chain([first], self._opened)
        self._steps: Iterator[Any] | None = None
        self._start, self._drawn = Position(), 0
        self._saved: Position | None = None

    @property
    def share(self) -> str:
        return describe_share(self._dataset.dataset)

    def position(self, steps: int | None = None) -> Position:
        return dataclasses.replace(self._start, drawn=self._drawn)

    @property
    def next_unused(self) -> Position:
        orders = self._start.orders or self._begun()
        return dataclasses.replace(self._start, drawn=self._drawn - self._counted, orders=orders)

    @property
    def next_position(self) -> Position:
        if not self.ends_epochs:
            return self.position()
        return Position(random=random_state(), orders=self._dataset.next_orders)

    @property
    def num_batches(self) -> int | None:
        """The number of batches in a pass; None if it is not known."""
        return self._count

    def begin(self) -> None:
        """Start an epoch: with a new pass, unless it continues one."""
        if not self._continues:
            self._steps = None

    def go_on(self, position: Position) -> None:
        self._saved, self._steps = position, None

    def catch_up(self, iterator: Iterator[Any]) -> None:
        """Begin a pass, or continue the saved one, unless it has begun; Keras' iterator has no batches."""
        if self._steps is None:
            self._steps = self._begin_pass()

    def __next__(self) -> Any:
        """Return the next batch as a worker batch.

        Raises:
            StopIteration: The pass is over, or was not begun.
        """
        if not self._again:
            self._last, self._counted = _NOT_READ, False
        self._agreement.on(self.method)
        if self._last is _NOT_READ:
            self._last = next(self._steps or iter(()), None)
        batch, self._again = self._last, False
        if not self._agreement.elastic:
            self._last = None
        if batch is None:
            if self._continues:
                self._steps = None
            raise StopIteration  # again and again, until the next epoch begins
        if self._start.orders is None:
            self._start = dataclasses.replace(self._start, orders=self._begun())
        if not self._counted:
            self._drawn, self._counted = self._drawn + 1, True
        return self._weighted(self._split.worker_batch(batch) if self._agreement.elastic else batch)

    def take_again(self) -> None:
        self._again = self._last is not _NOT_READ

    def _open(self, seed: int) -> Iterator[Any]:
        """Open a pass: over this worker's batches, or over those of all, where workers come and go."""
        dataset = self._dataset
        return dataset.global_batches(seed) if self._agreement.elastic else dataset.worker_batches(seed)

    def _begin_pass(self) -> Iterator[Any]:
        """Begin a pass, or continue the saved one."""
        saved, self._saved = self._saved, None
        if saved is not None:
            set_random_state([*saved.random])
        position = saved or Position(random=random_state())
        seed = _new_seed()
        opened, self._opened = self._opened, None
        if opened is not None and seed == self._seed and position.orders in (None, self._orders):
            position = dataclasses.replace(position, orders=self._orders)
        else:
            if position.orders is not None:
                self._dataset.return_to(position.orders)
            opened = self._open(seed)
        self._start, self._drawn = position, position.drawn
        for _ in range(position.drawn):
            next(opened, None)
        return opened

    def _begun(self) -> Orders:
        """Return the orders of the pass that has begun last."""
        return [[[seed, count - 1] for seed, count in each] for each in self._dataset.next_orders]

    def _weighted(self, batch: Any) -> Any:
        if isinstance(batch, ReplicatedBatch | UnevenBatch):
            return type(batch)(self._weighted(batch.batch))
        return batch if self._class_weight is None else with_class_weights(batch, self._class_weight)


def with_class_weights(batch: Any, weights: dict[int, float]) -> Any:
    """Return a batch with the weight of each example by its class.

    Args:
        batch: Inputs and labels.
        weights: As of `class_weights`.

    Raises:
        ValueError: It has weights already.
    """
    x, y, given = keras.utils.unpack_x_y_sample_weight(batch)
    if given is not None:
        raise ValueError("Give class_weight, or sample weights in the dataset, not both.")
    return keras.utils.pack_x_y_sample_weight(x, y, class_weights(y, weights))


def class_weights(labels: AnyArray, weights: dict[int, float]) -> np.ndarray[Any, Any]:
    """Return the weight of each example by its class.

    Args:
        labels: Classes of shape (n,) or (n, 1), or one-hot (n, classes).
        weights: Class -> weight; 1 for missing classes.

    Returns:
        Weights of shape (n,), float32.

    Raises:
        ValueError: The labels have another shape, or are those of several outputs.
    """
    if isinstance(labels, dict | list | tuple):
        raise ValueError(
            "class_weight is for models with one output, and the dataset has labels of several: let it yield "
            "(inputs, labels, sample_weights)."
        )
    labels = np.asarray(labels)
    if labels.ndim not in (1, 2):
        raise ValueError(
            f"class_weight needs labels of the shape (n,), (n, 1) or (n, classes), got {labels.shape}."
        )
    one_hot = labels.ndim > 1 and labels.shape[-1] > 1
    classes = labels.argmax(-1) if one_hot else labels.reshape(len(labels)).round().astype(int)
    return np.array([weights.get(int(each), 1.0) for each in classes], np.float32)


def _new_seed() -> int:
    return int(np.random.randint(2**31))


class InputWait:
    """Measures how long steps wait for their input, but for what workers exchange to agree on it.

    Args:
        exchanged: What this process exchanges with other tasks.

    Attributes:
        secs: The seconds so far.
    """

    def __init__(self, exchanged: Exchanged) -> None:
        self.secs = 0.0
        self._exchanged = exchanged
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic() - self._exchanged.secs

    def __exit__(self, *error: object) -> None:
        self.secs += time.monotonic() - self._exchanged.secs - self._began
