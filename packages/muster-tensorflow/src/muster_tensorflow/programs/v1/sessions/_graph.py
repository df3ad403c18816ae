"""``tf.Graph`` and ``tf.get_default_graph``, for programs that look up values and collections by them."""

import contextlib
from typing import Any, NoReturn

from muster.extend import Session, current_scope
from muster.program import Output
from muster_tensorflow.patches import change
from muster_tensorflow.programs.v1._collections import add_to_collection
from muster_tensorflow.programs.v1._step import get_collection
from muster_tensorflow.programs.v1.sessions._scaffold import InitialValues


class Graph:
    """Accepts what programs for TensorFlow 1 say to a graph; there is none, for steps are traced.

    Source: tensorflow/python/framework/ops.py, ``Graph``.
    """

    def as_default(self) -> contextlib.AbstractContextManager["Graph"]:
        """Return a context manager that does nothing."""
        return contextlib.nullcontext(self)

    def finalize(self) -> None:
        """Do nothing."""

    def get_tensor_by_name(self, name: str) -> Any:
        """Return a value that the model_fn has named so far, or one of its variables.

        Of any other name, and in a hook, it is a handle to fetch; nobody checks the name here.
        """
        return Output(name) if (found := _named(name)) is None else found

    def get_operation_by_name(self, name: str) -> Output:
        """Return a handle of the value that an operation computes, for hooks to fetch."""
        return Output(name)

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """Do as ``tf.get_collection``."""
        return get_collection(name, scope)

    def add_to_collection(self, name: str, value: Any) -> None:
        """Do as ``tf.add_to_collection``."""
        add_to_collection(name, value)

    def device(self, device_name_or_function: object) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that does nothing: strategies say which devices compute."""
        return contextlib.nullcontext()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"muster has no tf.Graph.{name}: there is no graph, a step is traced from Python code.", name=name
        )


def colocate_with(op: object, ignore_existing: bool = False) -> contextlib.AbstractContextManager[None]:
    """Return a context manager that does nothing: strategies say which devices compute.

    Source: tensorflow/python/framework/ops.py, ``colocate_with``.
    """
    return contextlib.nullcontext()


_DEFAULT = Graph()


def get_default_graph() -> Graph:
    """Return the graph, which is always the same."""
    return _DEFAULT


def _named(name: str) -> Any:
    """Return the value of a name in the step that is being traced, or the variable; None if there is none."""
    scope, path = current_scope(), name.removesuffix(":0")
    if scope is None:
        return None
    variables = {spec.path: variable for spec, variable in scope.bindings.table.pairs}
    return scope.outputs.offered.get(path, variables.get(path))


def patch() -> None:
    """Let sessions that hooks get have the graph."""
    change(Session, "graph", property(lambda self: _DEFAULT))


# What functions of a ``Scaffold`` get in the place of a session.
InitialValues.graph = property(lambda self: _DEFAULT)  # type: ignore[attr-defined]
