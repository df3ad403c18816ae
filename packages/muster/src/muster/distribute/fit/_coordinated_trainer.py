"""``fit``, ``evaluate`` and ``predict`` under a coordinator: workers compute, servers hold the variables.

Keras' trainer runs in the coordinator. Its steps are closures of Keras' own stateless steps: the coordinator
draws batches and sends them along, workers compute, and servers hold and update weights, the optimizer's
state and metrics. The train function returns before the step is taken, with the newest results that have
arrived. Before anybody looks at the model, all steps that were scheduled have ended.
"""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

from muster._errors import OutOfRangeError
from muster.cluster import TaskType
from muster.data import Dataset
from muster.distribute.coordinator._cluster_coordinator import ClusterCoordinator
from muster.distribute.coordinator._per_worker import PerWorkerDataset
from muster.distribute.fit._coordinated_input import WorkerBatches, made_by_workers
from muster.distribute.fit._coordinated_results import Results
from muster.distribute.fit._coordinated_steps import (
    CoordinatedFunction,
    CoordinatedPrediction,
    CoordinatedStep,
    kept_by_workers,
)
from muster.distribute.fit._fit import (
    DATASETS,
    PREDICTS,
    TRAINS,
    DistributedTrainer,
)
from muster.distribute.fit._fit_callback_list import EpochCallbacks
from muster.distribute.fit._fit_input import StepBatches
from muster.distribute.fit._step_signature import FUNCTIONS
from muster.distribute.input._dataset_creator import DatasetCreator
from muster.program.variables import give_to_owner, like_value_of, together
from muster.program.variables.keras_internals import keep_no_state, note_synced

_log = logging.getLogger(__name__)

# The methods of a model that read or assign all of its variables, and those of its metrics.
_ALL_VALUES = ("export", "get_weights", "load_weights", "save", "save_weights", "set_weights")
_METRICS = ("get_metrics_result", "reset_metrics")


class CoordinatedTrainer(DistributedTrainer):
    """Has the workers of a ``ParameterServerStrategy`` take the steps of a model.

    Args:
        model: A Keras model.
        strategy: The strategy.

    Source: tensorflow/python/keras/engine/training.py, ``Model.fit`` and its ``_cluster_coordinator``.
    """

    datasets = (*DATASETS, PerWorkerDataset)

    def __init__(self, model: Any, strategy: Any) -> None:
        super().__init__(model, strategy)
        self._cluster = strategy.cluster
        self._results = {name: Results(functools.partial(self._explain, name)) for name in FUNCTIONS}

    def attach(self) -> None:
        super().attach()
        model = self._model
        keep_no_state(model)
        for names, variables in ((_ALL_VALUES, self._variables), (_METRICS, self._metrics)):
            for name in names:
                method = functools.partial(self._together, variables, name)
                setattr(model, name, functools.wraps(getattr(type(model), name))(method))

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Compile in the strategy's scope; servers get the variables of an optimizer made outside of it, too.

        Source: keras/src/engine/training.py of Keras 2.15, ``Model.compile``.
        """
        with self.strategy.scope():
            yield
            for variable in self._model.optimizer.variables:
                give_to_owner(variable)

    def _metrics(self) -> list[Any]:
        return list(self._model.metrics_variables)

    def _together(self, variables: Callable[[], list[Any]], name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of Keras' that reads or assigns these variables of the model."""
        model = self._model
        with together(variables()):
            return getattr(type(model), name)(model, *args, **kwargs)

    def _make_function(self, name: str, force: bool = False) -> None:
        if self._callbacks is not None:
            self._callbacks.attach()
        model = self._model
        if model.run_eagerly:
            raise ValueError(
                f"run_eagerly=True debugs one process; under {self.strategy} workers run steps, and have "
                "none of this program's code. Leave it out, or the strategy."
            )
        trained = [id(variable) for variable in model.trainable_variables]
        made = getattr(model, FUNCTIONS[name])
        if made is not None and made.trained == trained and not force:
            return
        coordinator = ClusterCoordinator(self.strategy)
        step = CoordinatedStep(
            self._step,
            self._groups,
            name,
            (0, 2) if name == TRAINS else (),
            concatenates=name == PREDICTS,
        )
        kind = CoordinatedPrediction if name == PREDICTS else CoordinatedFunction
        function = kind(
            coordinator,
            step,
            functools.partial(self._next, name),
            model.steps_per_execution,
            self._cluster.num_tasks(TaskType.WORKER),
            self._results[name],
            lambda: not isinstance(self._callbacks, EpochCallbacks),
            trained,
            functools.partial(self.own.others, name),
            self._end_pass,
        )
        setattr(model, FUNCTIONS[name], function)

    def _step(self, name: str, state: Any, batch: Any) -> tuple[Any, Any]:
        own = self.own.step(name)
        if own is not None:  # it changes the variables of the function that a worker runs
            return state, own.run(batch)
        return super()._step(name, state, batch)

    def _explain(self, name: str, batch: Any) -> None:
        """Raise the error for which a step returned NaN, if it has one when it is run here."""
        like = tuple([like_value_of(variable) for variable in group] for group in self._groups(name))
        self._explain_step(name, like, batch)

    def _sync(self) -> None:
        """Wait until all steps have ended, as Keras does before anybody reads variables."""
        if any(results.begun for results in self._results.values()):
            try:
                ClusterCoordinator(self.strategy).join()
            except OutOfRangeError:
                self._end_pass()  # no worker has a batch left: steps beyond were not taken
            finally:
                self._end_results()
            seeds = kept_by_workers(self._model.non_trainable_variables)
            for variable, value in zip(seeds, self._results[TRAINS].seeds, strict=False):
                variable.assign(value)  # to be saved: another coordinator gives it to its workers
        note_synced(self._model)

    def _end_pass(self) -> None:
        """Warn that the workers' data has ended before an epoch, as Keras does, and begin the next anew."""
        batches = self._batches.get(TRAINS)
        if isinstance(batches, WorkerBatches) and not batches.has_ended:
            batches.has_ended = True
            _log.warning(
                "The data of all workers ran out in an epoch, which ends with it; the next epoch begins a "
                "new pass. Let the dataset repeat, or give fewer steps_per_epoch."
            )

    def _end_results(self) -> None:
        for results in self._results.values():
            results.end()

    def _give_back(self, name: str) -> None:
        """Cancel what has not begun when a call fails, and wait for the rest."""
        if any(results.begun for results in self._results.values()):
            ClusterCoordinator(self.strategy).closures.cancel()
            self._end_results()

    def _unshare(self) -> None:
        """Nothing overwrites values: they are on servers."""

    def _dataset_batches(
        self,
        dataset: Any,
        per_epoch: int | None,
        class_weight: dict[int, float] | None = None,
        *,
        continues: bool = False,
    ) -> StepBatches:
        shares = isinstance(dataset, Dataset) and dataset.options().experimental_distribute.dispatch
        if shares or (isinstance(dataset, DatasetCreator) and continues):
            dataset = made_by_workers(ClusterCoordinator(self.strategy), dataset, class_weight)
        elif isinstance(dataset, PerWorkerDataset) and class_weight is not None:
            raise ValueError(
                "class_weight is for data that fit can weigh. Let the dataset yield (inputs, targets, "
                "sample_weights)."
            )
        if isinstance(dataset, PerWorkerDataset):
            workers = self._cluster.num_tasks(TaskType.WORKER)
            return WorkerBatches(dataset, per_epoch, continues=continues, workers=workers)
        return super()._dataset_batches(dataset, per_epoch, class_weight, continues=continues)
