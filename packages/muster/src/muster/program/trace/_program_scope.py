"""Bind the variables that a model_fn creates: to initial values first, to a given state afterwards."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from muster._arrays import AnyArray, LazyArray, dtype_named
from muster._errors import OutsideVariableError, TraceError, VariableMismatchError
from muster.checkpoint import MappedArray
from muster.program._replicas import Replicas
from muster.program.trace._values_to_come import value_to_come
from muster.program.variables._initial_rows import InitialValue
from muster.program.variables._initial_values import donatable_copy
from muster.program.variables._origins import VariableKind, kind_of_new
from muster.program.variables._variable_scope import VariableScope
from muster.program.variables._variable_table import VariableSpec
from muster.program.variables.keras_internals import fresh_names, seeds_from


class ProgramScope(VariableScope):
    """Gives the variables that code creates the values of a state, or initial values while it is recorded.

    Args:
        state: Path -> value; None to record.
        known: Path -> value to use instead of an initializer where shapes agree; to record.
        known_local: Whether `known` counts for local variables too.
        seed: Seeds Keras' initializers; None leaves them random.
        replicas: The replicas that run this code in parallel; None if there is only one.

    Attributes:
        records: Whether it records.
        initial: The initial values of the variables created so far; to record. Large ones may lie in
            files, or are not made yet.
    """

    def __init__(
        self,
        state: Mapping[str, jax.Array] | None = None,
        *,
        known: Mapping[str, AnyArray] | None = None,
        known_local: bool = False,
        seed: int | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        super().__init__(replicas)
        self.records = state is None
        self.initial: list[jax.Array | LazyArray] = []
        self._state = state
        self._known = known or {}
        self._known_local = known_local
        self._seed = seed

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        # Without a seed, keras.utils.set_random_seed determines initial values; a given state needs none.
        recording = self._state is None
        seeds = None if recording and self._seed is None else random.Random(self._seed or 0)
        with fresh_names(), seeds_from(seeds):
            return super().run(function, *args)

    def created(self, variable: Any, initializer: Any) -> None:
        spec = self.table.add(variable, kind_of_new())
        if self._state is None:
            initial = self._initial_value(spec, initializer)
            self.initial.append(initial)
            value = value_to_come(initial) if isinstance(initial, LazyArray) else initial
        else:
            value = self._value_in(self._state, spec)
        self.state_mapping[id(variable)] = value
        self.fold_replica_into_seed(variable)

    def start_from(self, variable: Any, read: Callable[[], np.ndarray[Any, Any]]) -> None:
        spec = self.table.spec(variable)
        if self._state is None and self._known_value(spec) is None:
            self.initial[self.table.specs.index(spec)] = _started(read(), spec)

    def get_current_value(self, variable: Any) -> jax.Array:
        self.note_read(variable)
        try:
            return self.state_mapping[id(variable)]  # type: ignore[no-any-return]
        except KeyError:
            raise OutsideVariableError(
                f"The variable {variable.path!r} with shape {tuple(variable.shape)} was built outside of the "
                "function that uses it. Build every layer, model, optimizer and variable inside of it: "
                "muster binds only those to the state that it trains, saves and restores."
            ) from None

    def may_use(self, variable: Any) -> bool:
        return id(variable) in self.state_mapping

    def check_constant(self, variable: Any) -> None:
        """Refuse to set a trained weight to the same value in every step, as ``set_weights`` would."""
        self.get_current_value(variable)
        spec = self.table.spec(variable)
        if spec.kind is VariableKind.WEIGHT and spec.trainable:
            raise TraceError(
                f"The code assigns a constant to the weight {spec}, which would undo its training in every "
                "step. To start from given weights, use an initializer, or warm_start_from of the Estimator."
            )

    def _initial_value(self, spec: VariableSpec, initializer: Any) -> jax.Array | LazyArray:
        known = self._known_value(spec)
        if known is not None:
            return _started(known, spec)
        later = InitialValue(initializer, spec.shape, spec.dtype)
        return later if later.may_wait else later.make()

    def _known_value(self, spec: VariableSpec) -> AnyArray | None:
        counts = spec.saved and (self._known_local or not spec.local)
        known = self._known.get(spec.path) if counts else None
        return known if known is not None and tuple(known.shape) == spec.shape else None

    def _value_in(self, state: Mapping[str, jax.Array], spec: VariableSpec) -> jax.Array:
        value = state.get(spec.path)
        if value is None or tuple(value.shape) != spec.shape or str(value.dtype) != spec.dtype:
            had = "nothing of that name" if value is None else f"{value.dtype}{list(value.shape)}"
            raise VariableMismatchError(
                f"This time the function built the variable {spec}; the first time it built {had}. It must "
                "build the same variables at every call: look for names, sizes or layers that depend on "
                "a counter, on randomness or on the size of the batch."
            )
        return value


def _started(value: Any, spec: VariableSpec) -> jax.Array | MappedArray:
    """Return a value from which a variable starts: a copy, or the value itself if it lies in a file."""
    if isinstance(value, MappedArray):
        return value if value.dtype == spec.dtype else value.astype(dtype_named(spec.dtype))
    return donatable_copy(value, spec.dtype)
