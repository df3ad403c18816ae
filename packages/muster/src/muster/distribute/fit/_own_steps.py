"""Run the steps that a model defines with TensorFlow's signature."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from muster._keras import keras
from muster.data import Dataset
from muster.distribute.fit._first_batch import first_of_epoch, first_rows, first_to_predict, packed, peeked
from muster.distribute.fit._stateful_step import FUNCTIONS, StatefulStep, takes_data
from muster.distribute.fit._step_texts import StepTexts, dataset_has_text, is_prepared, is_text
from muster.distribute.replicas._replica_context import ReplicaGroup
from muster.program.variables.keras_internals import build_on_values, is_built, replace_results


class OwnSteps:
    """Has the model's own steps of ``fit``, ``evaluate`` and ``predict`` traced before Keras reads variables.

    The first trace of a step creates what it uses, so that Keras need not build the model. A step is traced
    when Keras makes the function that it calls for steps, and kept until the model is compiled again.

    Args:
        model: A Keras model.
        strategy: The strategy that runs it.
    """

    def __init__(self, model: Any, strategy: ReplicaGroup) -> None:
        self._model = model
        self._strategy = strategy
        self._steps: dict[str, StatefulStep] = {}
        self._texts: dict[str, StepTexts] = {}
        self._first: dict[str, Any] = {}
        self._running: list[str] = []

    @property
    def method(self) -> str | None:
        """The method that is being called, the innermost one; None outside of any."""
        return self._running[-1] if self._running else None

    def attach(self) -> None:
        """Let the model ask here for the results of an epoch."""
        replace_results(self._model, self._results)

    def step(self, method: str) -> StatefulStep | None:
        """Return the model's own step of a method; None if Keras' is taken."""
        return self._steps.get(method)

    def others(self, method: str) -> list[Any]:
        """Return the variables of a method's steps that Keras does not pass."""
        step = self._steps.get(method)
        return [] if step is None else step.others

    @contextlib.contextmanager
    def running(self, method: str) -> Iterator[None]:
        """Choose the step of a method, which is called meanwhile."""
        self._choose(method)
        self._running.append(method)
        try:
            yield
        finally:
            self._running.pop()
            self._first.pop(method, None)

    def _choose(self, method: str) -> None:
        model, step = self._model, self._steps.get(method)
        if method not in self._texts and not takes_data(model, method):
            self._steps.pop(method, None)
        elif step is None or not step.recorded or getattr(model, FUNCTIONS[method]) is None:
            self._steps[method] = self._new(method)

    def _new(self, method: str) -> StatefulStep:
        return StatefulStep(self._model, method, self._strategy, self._texts.get(method))

    def read_text(self, method: str, data: Any, others: Any = ()) -> Any:
        """Return data with what the step of a method needs of its text, which the host computes: numbers.

        The step is traced with the first batch, to learn what this is.

        Args:
            method: ``fit``, ``evaluate`` or ``predict``.
            data: A dataset, or inputs in memory. Without text it is returned as it is.
            others: The labels and weights of inputs in memory.
        """
        if is_prepared(data):
            return data
        if not (dataset_has_text(data) or is_text(data)) or not self._may_read_text(method):
            if self._texts.pop(method, None) is not None:
                self._forget(method)
            return data
        of_batches = isinstance(data, Dataset)
        first = next(iter(data.take(1)), None) if of_batches else packed(first_rows((data, *others)))
        if first is None:
            return data
        texts = self._texts.setdefault(method, StepTexts())
        texts.begin(first)
        learns = True
        while learns:
            self._new(method).record(texts.prepare(first))
            learns = texts.work.learn()
            if learns:
                self._forget(method)
        self._choose(method)
        if of_batches:
            return data.map(lambda *batch: texts.prepare(batch if len(batch) > 1 else batch[0]))
        return texts.prepare(data)

    def _may_read_text(self, method: str) -> bool:
        """Return whether the model, or its step of a method, is code of the program."""
        own_call = not type(self._model).call.__module__.startswith("keras.")
        return own_call or takes_data(self._model, method)

    def _forget(self, method: str) -> None:
        """Let a step that was traced, and what was compiled of it, be made anew."""
        self._steps.pop(method, None)
        setattr(self._model, FUNCTIONS[method], None)

    def look_at(self, method: str, arguments: dict[str, Any]) -> None:
        """Look at the first batch of the arguments of a call, if a step is to be traced with it.

        A generator among them is replaced by one that yields this batch again: that of a validation before
        ``fit``, since Keras begins to read it once, there.
        """
        if method == "fit" and takes_data(self._model, "evaluate"):
            first, data = peeked(arguments.get("validation_data"))
            if first is not None:
                arguments["validation_data"] = data
                self._first["evaluate"] = first
        step = self._to_record(method)
        if step is None or arguments.get("kwargs", {}).get("_use_cached_eval_dataset"):
            return
        first, data = peeked(arguments.get("x"))
        if first is not None:
            arguments["x"] = data
            self._first[method] = first
        if method == "predict":
            step.record(first_to_predict(data, arguments.get("batch_size")) if first is None else first)

    def look_at_batch(self, x: Any) -> None:
        """Trace the step of ``predict`` with the single batch that is to be predicted."""
        step = self._to_record("predict")
        if step is not None:
            step.record(keras.utils.pack_x_y_sample_weight(x))

    def _to_record(self, method: str) -> StatefulStep | None:
        """Return a method's own step if it is to be traced; one that runs eagerly is not."""
        step = self._steps.get(method)
        return None if step is None or step.recorded or self._model.run_eagerly else step

    def build(self, keras_build: Callable[..., None], iterator: Any = None, data_batch: Any = None) -> None:
        """Trace the model's own step, or let Keras build the model for its."""
        method = self.method or ""
        if method not in self._steps:
            if self._model.run_eagerly and not is_built(self._model):
                data_batch = first_of_epoch(iterator) if data_batch is None else packed(data_batch)
                if data_batch is not None:
                    build_on_values(self._model, data_batch)
            keras_build(iterator=iterator, data_batch=data_batch)
            if method:
                self._choose(method)  # Keras has called the layers for the first time
        if method not in self._steps:
            return None
        step = self._to_record(method)
        if step is None:
            return None
        batch = self._first.get(method) if data_batch is None else packed(data_batch)
        batch = first_of_epoch(iterator) if batch is None else batch
        return None if batch is None else step.record(batch)

    def _results(self, keras_results: Callable[[Any], Any], logs: Any) -> Any:
        """Return an epoch's results: those of the metrics, if the model's own step updates all of them."""
        step = self._steps.get(self.method or "")
        return logs if step is not None and not step.updates(self._model.metrics) else keras_results(logs)
