"""Convert a model's own ``train_step(self, data)`` into Keras' stateless step for JAX.

The step is traced as a `muster.function` is. It may use variables that Keras does not take for the model's,
as those of a second optimizer; these are part of the state, too.
"""

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster._errors import TraceError
from muster._keras import keras
from muster.distribute.engine._split import unwrapped
from muster.distribute.engine._traced import Step
from muster.distribute.fit._step_texts import StepTexts
from muster.distribute.replicas._replica_context import ReplicaContext, ReplicaGroup, entered
from muster.program import only_data_errors
from muster.program.trace import FunctionProgram, run_eagerly
from muster.program.variables import active_scope, layers_assign_weights
from muster.program.variables.keras_internals import has_metrics_in_layers, layers_within, set_values

TRAINS, TESTS, PREDICTS = "fit", "evaluate", "predict"

STEPS = {TRAINS: "train_step", TESTS: "test_step", PREDICTS: "predict_step"}
"""The step that each method of a model takes."""

FUNCTIONS = {TRAINS: "train_function", TESTS: "test_function", PREDICTS: "predict_function"}
"""The attribute of a model that holds what Keras calls for the steps of each method."""


def groups_passed(model: Any, method: str) -> list[list[Any]]:
    """Return the variables of the state that Keras passes for a method's steps, in lists as Keras has them.

    Args:
        model: A Keras model.
        method: ``fit``, ``evaluate`` or ``predict``.
    """
    groups = [model.trainable_variables, model.non_trainable_variables]
    if method == TRAINS:
        groups.append(model.optimizer.variables)
    if method != PREDICTS:
        groups.append(model.metrics_variables)
    return [list(group) for group in groups]


def variables_passed(model: Any, method: str) -> list[Any]:
    """Return the variables of `groups_passed`, one after the other."""
    return list(itertools.chain(*groups_passed(model, method)))


def takes_data(model: Any, method: str) -> bool:
    """Return whether the step of a method takes the data alone, and changes the model's variables itself.

    Keras' own steps on JAX take the state, too, and return the new one. They do not expect a layer to update
    metrics or weights when it is called: models with such layers take them in their other form. A step that
    takes any arguments, as a decorator may leave it, is of the kind of the one that it overrides.

    Args:
        model: A Keras model.
        method: ``fit``, ``evaluate`` or ``predict``.

    Raises:
        TypeError: The step takes neither.
    """
    name = STEPS[method]
    own = getattr(keras.Model, name)
    for step in _overrides(model, name):
        if getattr(step, "__func__", None) is own:
            return has_metrics_in_layers(model) or layers_assign_weights(model)
        kind = _takes_data_alone(step, f"{type(model).__name__}.{name}")
        if kind is not None:
            return kind
    return False


def may_have_own_steps(model: Any) -> bool:
    """Return whether a step of a model takes the data alone, which Keras on JAX would not call.

    Or may do so when the model is built: nobody has seen yet what its layers do when they are called.
    """
    unseen = not model.built and any(_is_of_program(layer) for layer in layers_within(model))
    return unseen or any(takes_data(model, method) for method in STEPS)


def _is_of_program(layer: Any) -> bool:
    return not isinstance(layer, keras.Model) and type(layer).__module__.split(".")[0] != "keras"


def _overrides(model: Any, name: str) -> Iterator[Callable[..., Any]]:
    """Yield the steps of a model under a name, bound to it: the one that is called, then those it hides."""
    if name in vars(model):
        yield vars(model)[name]
    for owner in type(model).__mro__:
        if name in vars(owner):
            yield vars(owner)[name].__get__(model, type(model))


def _takes_data_alone(step: Callable[..., Any], name: str) -> bool | None:
    """Return whether a bound step takes the data alone; None if it takes any arguments."""
    signature = inspect.signature(step)
    alone, with_state = _takes(signature, 1), _takes(signature, 2)
    if not alone and not with_state:
        raise TypeError(
            f"{name} takes {signature}. Define it as `{name.split('.')[-1]}(self, data)`, which changes the "
            "model's variables, or, Keras' way on JAX, `(self, state, data)`, which returns the new state."
        )
    if alone and with_state:
        first = next(iter(signature.parameters.values()))
        return None if first.kind is first.VAR_POSITIONAL else first.name != "state"
    return alone


def _takes(signature: inspect.Signature, count: int) -> bool:
    """Return whether a function takes this number of arguments by position."""
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


# What Keras' steps for PyTorch use, and arrays and models do not have here.
_OF_TORCH = ("backward", "zero_grad", "grad")
# What steps for Keras 2 use, and models do not have any more.
_OF_KERAS_2 = ("compiled_loss", "compiled_metrics")


class StatefulStep:
    """Takes a step of a model as a pure function of the variables' values.

    Args:
        model: A Keras model.
        method: ``fit``, ``evaluate`` or ``predict``.
        strategy: The strategy that runs the model. The step sees all rows of a batch, as a single replica.
        texts: What the host computes for the step of the text in a batch; None if there is none.
    """

    def __init__(
        self, model: Any, method: str, strategy: ReplicaGroup, texts: StepTexts | None = None
    ) -> None:
        self._model = model
        self._method, self._name = method, STEPS[method]
        self._results = _arrays_of if method == PREDICTS else self._logs_of
        self._strategy = strategy
        self._texts = texts
        self._program: FunctionProgram[None] | None = None

    def record(self, batch: Any) -> None:
        """Run the step on the shapes of a batch, to learn which variables it uses; those it creates begin.

        Args:
            batch: The arrays of a batch, as the step gets them.
        """
        self._program = program = FunctionProgram(lambda data: (self.run(data), None), batch)
        several = self._strategy.num_replicas_in_sync > 1
        for spec, _ in program.used if several else ():
            if spec.per_replica:
                raise TraceError(
                    f"{self._title} uses {spec.path}, of which each replica has its own value (ON_READ). In "
                    "fit a step sees the batch of all replicas at once: create it without `synchronization`."
                )
        model = self._model
        if type(model).build is keras.Model.build and all(layer.built for layer in model.layers):
            model.built = True  # also one that has no call, such as a pair of models

    @property
    def recorded(self) -> bool:
        """True if the step's variables are known."""
        return self._program is not None

    @property
    def others(self) -> list[Any]:
        """The variables of the step that Keras does not pass, in the order of their first use."""
        if self._program is None:
            return []
        known = set(map(id, self._passed))
        return [variable for _, variable in self._program.used if id(variable) not in known]

    def updates(self, metrics: Sequence[Any]) -> bool:
        """Return whether the step updates each of some metrics."""
        if self._program is None:  # it runs eagerly, and nobody knows
            return False
        changed = {id(v) for spec, v in self._program.used if spec.path in self._program.assigned}
        return all(any(id(variable) in changed for variable in metric.variables) for metric in metrics)

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """Take the step on a state: the lists that Keras passes, with the others behind the last one's.

        Returns:
            The new state, and the step's results.
        """
        program = self._program
        if program is None:
            raise TraceError(f"{self._title} was not traced: call fit, evaluate or predict.")
        values, structure = jax.tree.flatten(state)
        paths = {id(variable): spec.path for spec, variable in program.used}
        keys = [
            paths.get(id(variable), "")
            for variable in (*variables_passed(self._model, self._method), *self.others)
        ]  # "": unused
        before = {path: value for path, value in zip(keys, values, strict=True) if path}
        after, results = program.step(before, batch)
        new = [after.get(path, value) for path, value in zip(keys, values, strict=True)]
        return jax.tree.unflatten(structure, new), results

    def eagerly(self, state: Any, batch: Any) -> Any:
        """Take the step on numbers, for debugging, and return its results.

        The model's variables have the new state; the step may create some.
        """
        set_values(self._passed, jax.tree.leaves(state))
        arrays, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, unwrapped(batch)))
        return run_eagerly(lambda *arrays: self.run(jax.tree.unflatten(structure, arrays)), arrays)

    def explain(self, batch: Any) -> None:
        """Raise the error for which a step returned NaN, if it has one when it is run eagerly."""
        if self._program is not None:
            with only_data_errors():
                self._program.run_eagerly(unwrapped(batch))

    def run(self, data: Any) -> Any:
        """Run the model's step in the scope of this code, and return its results as arrays.

        Lists of arrays are tuples in its data, as TensorFlow's datasets make them.
        """
        shown = contextlib.nullcontext(data) if self._texts is None else self._texts.shown(data)
        with entered(ReplicaContext(self._strategy, None)), self._explained(), shown as batch:
            return self._results(getattr(self._model, self._name)(keras.tree.lists_to_tuples(batch)))

    @property
    def _passed(self) -> list[Any]:
        """The variables that Keras passes for the step, in its order."""
        return variables_passed(self._model, self._method)

    @property
    def _title(self) -> str:
        return f"{type(self._model).__name__}.{self._name}"

    def _logs_of(self, returned: Any) -> Any:
        if not isinstance(returned, dict):
            raise TypeError(
                f"{self._title} must return a dict of its results, such as {{'loss': loss}} or {{m.name: "
                f"m.result() for m in self.metrics}}, got {returned!r}."
            )
        return _arrays_of(returned)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what to write in place of PyTorch's way to gradients, and of names of Keras 2."""
        try:
            yield
        except AttributeError as exc:
            if exc.name in _OF_KERAS_2 and exc.obj is self._model:
                raise TraceError(
                    f"{self._title} uses `self.{exc.name}`, which models had in Keras 2. Write `loss = "
                    "self.compute_loss(x, y, y_pred, sample_weight)` in place of `compiled_loss`; it adds "
                    "`self.losses`. At the end `return self.compute_metrics(x, y, y_pred, sample_weight)` "
                    "updates the metrics, in place of `compiled_metrics`. Or keep both, and import "
                    "TensorFlow's names, of the package muster-tensorflow, which have them."
                ) from exc
            if exc.name not in _OF_TORCH:
                raise
            raise TraceError(
                f"{self._title} uses `{exc.name}`, PyTorch's way to gradients, which JAX does not have. "
                "Compute the loss in `with muster.GradientTape() as tape:`, then `gradients = "
                "tape.gradient(loss, self.trainable_variables)` and `self.optimizer.apply(gradients, "
                "self.trainable_variables)`. Leave out zero_grad, backward and torch.no_grad."
            ) from exc


def compiled_by_lengths(compile_step: Callable[[], Step]) -> Step:
    """Return a step that is compiled anew where the lists of its state have other lengths.

    A model may get variables between two steps: those of metrics that a validation is the first to use.
    """
    steps: dict[tuple[int, ...], Step] = {}

    def step(state: Any, reads: Any, batch: Any) -> tuple[Any, Any]:
        lengths = tuple(map(len, state))
        if lengths not in steps:
            steps[lengths] = compile_step()
        return steps[lengths](state, reads, batch)

    return step


def _arrays_of(returned: Any) -> Any:
    read = active_scope("A step").read
    return jax.tree.map(read, returned, is_leaf=lambda each: isinstance(each, keras.Variable))
