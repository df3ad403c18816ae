"""The input of a trainer: where the steps of each method draw their batches."""

import contextlib
from collections.abc import Iterator
from typing import Any

from muster.data import UNKNOWN_CARDINALITY, Dataset
from muster.distribute.engine._split import Split
from muster.distribute.fit._agreement import Agreement
from muster.distribute.fit._first_batch import SingleBatch
from muster.distribute.fit._fit_data import adapt
from muster.distribute.fit._fit_input import DatasetBatches, FitInput, InputWait, KerasBatches, check_data
from muster.distribute.fit._own_steps import OwnSteps
from muster.distribute.fit._stateful_step import PREDICTS, TESTS, TRAINS
from muster.distribute.input._dataset_creator import DatasetCreator
from muster.distribute.input._distributed_dataset import DistributedDataset
from muster.distribute.strategies._strategy import Strategy

# What has steps draw batches from datasets.
DATASETS: tuple[type, ...] = (Dataset, DistributedDataset, DatasetCreator)


class TrainerInput:
    """Replaces the data of a call of ``fit``, ``evaluate`` or ``predict`` by what its steps draw from.

    Args:
        model: The model.
        strategy: The strategy that runs it.
        agreement: The agreement of the workers.
        own: The model's own steps, which read text.

    Attributes:
        datasets: The types of what has steps draw batches from datasets.
        wait: The time that steps of training wait for input, if there are others to be told of it.
    """

    datasets = DATASETS

    def __init__(self, model: Any, strategy: Strategy, agreement: Agreement, own: OwnSteps) -> None:
        self._model = model
        self._strategy = strategy
        self._agreement = agreement
        self._own = own
        self._split = Split(strategy.workers.share_of(strategy.local_replicas))
        self.wait = InputWait(strategy.workers.exchanged)
        self._is_told = strategy.workers.reporter is not None
        self._of: dict[str, FitInput] = {}

    def prepare(self, name: str, arguments: dict[str, Any]) -> FitInput:
        """Choose where the steps of a method draw batches, and return it.

        Args:
            name: The method.
            arguments: Those of the call: datasets among them are replaced by objects that Keras knows.
        """
        adapt(arguments, self._model, self.datasets, method=name)
        self._read_text(name, arguments)
        x = arguments.get("x")
        per_epoch = arguments.get("steps_per_epoch" if name == TRAINS else "steps")
        if isinstance(x, self.datasets):
            arguments["batch_size"] = None  # Keras does not read it: the dataset has batches
            for other in ("y", "sample_weight"):
                if arguments.get(other) is not None:
                    raise ValueError(
                        f"With a Dataset as `x`, `{other}` should not be given, got {arguments[other]!r}: "
                        "the dataset yields batches of (inputs, targets, sample_weights)."
                    )
            weights = arguments.pop("class_weight", None)
            continues = name == TRAINS and per_epoch is not None
            arguments["x"] = x = self._of_dataset(x, per_epoch, weights, continues=continues)
            if name == TRAINS:
                arguments["shuffle"] = False
        batches = x if isinstance(x, FitInput) else KerasBatches(self._agreement, self._split, per_epoch)
        self._of[name] = batches
        batches.method = name
        given = x[0] if isinstance(x, FitInput) else (x, arguments.get("y"))
        check_data(self._model, given, trains_or_tests=name != PREDICTS)
        batches.begin()
        validation = arguments.get("validation_data")
        if isinstance(validation, self.datasets):
            steps = arguments.get("validation_steps")
            arguments["validation_data"] = self._of_dataset(validation, steps)
        return batches

    def of(self, name: str) -> FitInput | None:
        """Return what the steps of a method draw from; None outside of its calls."""
        return self._of.get(name)

    def next(self, name: str, iterator: Iterator[Any]) -> Any:
        """Return the next worker batch of a method's steps.

        Args:
            name: The method.
            iterator: Keras' iterator.
        """
        batches = self._of[name]
        if self._is_told and name == TRAINS:
            with self.wait:
                batches.catch_up(iterator)
                return next(batches)
        batches.catch_up(iterator)
        return next(batches)

    def take_again(self, name: str) -> None:
        """Let a step that other workers have interrupted be made again."""
        self._of[name].take_again()

    @contextlib.contextmanager
    def one_batch(self, name: str) -> Iterator[None]:
        """Let steps take a single batch, for ``train_on_batch``; a callback may call it between others."""
        before = self._of.get(name)
        kind = KerasBatches if self._own.step(name) is None else SingleBatch
        self._of[name] = batches = kind(self._agreement, self._split)
        batches.method = name
        try:
            yield
        finally:
            if before is not None:
                self._of[name] = before

    def leave(self) -> None:
        """Let go of all data, after the outermost call."""
        self._of.clear()

    def _read_text(self, name: str, arguments: dict[str, Any]) -> None:
        """Let the host compute what steps need of text: see `OwnSteps.read_text`."""
        x, held_out = arguments.get("x"), arguments.get("validation_data")
        if not isinstance(x, FitInput):
            labels = [arguments.get(each) for each in ("y", "sample_weight")]
            arguments["x"] = self._own.read_text(name, x, labels)
        if isinstance(held_out, tuple | list):
            read = self._own.read_text(TESTS, held_out[0], held_out[1:])
            arguments["validation_data"] = (read, *held_out[1:])
        elif held_out is not None:
            arguments["validation_data"] = self._own.read_text(TESTS, held_out)

    def _of_dataset(
        self,
        dataset: Any,
        per_epoch: int | None,
        class_weight: dict[int, float] | None = None,
        *,
        continues: bool = False,
    ) -> FitInput:
        count = None
        if isinstance(dataset, DatasetCreator):
            dataset.check_steps(per_epoch)
            dataset = self._strategy.distribute_datasets_from_function(dataset, dataset.input_options)
        elif isinstance(dataset, Dataset):
            cardinality = int(dataset.cardinality())
            count = None if cardinality == UNKNOWN_CARDINALITY else cardinality
            dataset = self._strategy.experimental_distribute_dataset(dataset)
        return DatasetBatches(
            self._agreement,
            dataset,
            per_epoch,
            class_weight,
            count=count,
            continues=continues,
            split=self._split,
        )
