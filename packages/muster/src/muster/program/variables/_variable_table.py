"""List the variables of a step, each with its description under a unique path."""

from dataclasses import dataclass, replace
from typing import Any

import jax

from muster._keras import keras
from muster.checkpoint.objects import unique_path
from muster.program.variables._origins import SEED_STATE, VariableKind


@dataclass(frozen=True, kw_only=True)
class VariableSpec:
    """The description of a variable, without its value.

    Attributes:
        path: Its unique name, such as ``sequential/dense/kernel``.
        shape: Its shape, global.
        dtype: The name of its dtype.
        trainable: Whether ``minimize`` trains it by default.
        kind: The kind of object that it belongs to.
        aggregation: How replicas' assignments are reduced, as Keras names it.
        per_replica: Whether each replica keeps its own value from step to step.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool
    kind: VariableKind
    aggregation: str
    per_replica: bool = False

    @property
    def local(self) -> bool:
        """True if each evaluation resets it: a metric's, which training keeps, or one of no checkpoint."""
        return self.kind in (VariableKind.METRIC, VariableKind.LOCAL)

    @property
    def saved(self) -> bool:
        """True if it is in checkpoints."""
        return self.kind is not VariableKind.LOCAL

    def __str__(self) -> str:
        return f"{self.path} {self.dtype}{list(self.shape)}"


class VariableTable:
    """The variables that a step uses, in order of first use.

    It holds the variables, so that their ids stay theirs.
    """

    def __init__(self) -> None:
        self._pairs: dict[int, tuple[VariableSpec, Any]] = {}
        self._paths: set[str] = set()

    def add(
        self, variable: Any, kind: VariableKind, dtype: Any = None, *, per_replica: bool = False
    ) -> VariableSpec:
        """Add a variable under a path that no other one has.

        Args:
            variable: A ``keras.Variable``.
            kind: The kind of object that it belongs to.
            dtype: The dtype of its value; None takes the one that it declares.
            per_replica: Whether each replica keeps its own value.
        """
        dtype = keras.backend.standardize_dtype(variable.dtype) if dtype is None else dtype
        spec = VariableSpec(
            path=unique_path(variable.path, self._paths),
            shape=tuple(variable.shape),
            dtype=str(jax.dtypes.canonicalize_dtype(dtype)),
            trainable=bool(variable.trainable),
            kind=VariableKind.SEED if variable.path.endswith(SEED_STATE) else kind,
            aggregation=variable.aggregation,
            per_replica=per_replica,
        )
        self.put(spec, variable)
        return spec

    def keep_copies(self, variable: Any) -> VariableSpec:
        """Note that each replica keeps its own value of a variable of this table; return the description."""
        spec = replace(self.spec(variable), per_replica=True)
        self.put(spec, variable)
        return spec

    def put(self, spec: VariableSpec, variable: Any) -> None:
        """Add a variable that has a description already."""
        self._paths.add(spec.path)
        self._pairs[id(variable)] = spec, variable

    def __contains__(self, variable: Any) -> bool:
        return id(variable) in self._pairs

    def spec(self, variable: Any) -> VariableSpec:
        """Return the description of a variable of this table."""
        return self._pairs[id(variable)][0]

    @property
    def pairs(self) -> list[tuple[VariableSpec, Any]]:
        """The description of each variable, and the variable."""
        return list(self._pairs.values())

    @property
    def specs(self) -> tuple[VariableSpec, ...]:
        """The description of each variable."""
        return tuple(spec for spec, _ in self._pairs.values())
