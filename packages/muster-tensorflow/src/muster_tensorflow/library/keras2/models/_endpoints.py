"""Keras 2's ``add_metric``; ``add_loss`` and ``add_metric`` on tensors of a functional model.

Source: keras/engine/base_layer.py, ``Layer.add_loss`` and ``Layer.add_metric``, of Keras 2.15.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax

from muster import TraceError, keras
from muster.extend import compute_too, current_scope, is_bound, only_shapes_are_asked, own_metric
from muster_tensorflow.patches import change, wrap


@keras.saving.register_keras_serializable("muster")
class AddLoss(keras.layers.Layer):  # type: ignore[misc]  # it has no types
    """Adds what it is called with to the losses."""

    def call(self, inputs: Any) -> Any:
        """Add a loss, and return it."""
        self.add_loss(inputs)
        return inputs


@keras.saving.register_keras_serializable("muster")
class AddMetric(keras.layers.Layer):  # type: ignore[misc]  # it has no types
    """Shows the mean of what it is called with among the results.

    Args:
        metric: The name of the result.
    """

    def __init__(self, metric: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metric = metric
        self.mean = keras.metrics.Mean(name=metric)

    def call(self, inputs: Any) -> Any:
        """Add values to the mean, and return them."""
        self.mean.update_state(inputs)
        return inputs

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it."""
        return {**super().get_config(), "metric": self.metric}


def _adding_tensors(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``add_loss``, so that a functional model takes tensors it computes."""

    @functools.wraps(original)
    def add_loss(self: Any, loss: Any, **kwargs: Any) -> None:
        kwargs.pop("inputs", None)  # Keras 2's: which inputs it depends on
        symbolic = [each for each in jax.tree.leaves(loss) if isinstance(each, keras.KerasTensor)]
        if not symbolic:
            original(self, loss, **kwargs)
        for tensor in symbolic:
            compute_too(_functional(self, "add_loss"), AddLoss()(tensor))

    return add_loss


def _add_metric(self: Any, value: Any, name: str | None = None, aggregation: str | None = None) -> None:
    """Show the mean of a value among the results of ``fit`` and ``evaluate``.

    Args:
        self: A layer or model, in its ``call``; or a functional model.
        value: An array; for a functional model, a tensor that it computes.
        name: The name of the result; None if the value is that of a metric that the layer holds.
        aggregation: Only ``mean``, and None, which means the same.

    Raises:
        ValueError: There is no name, or the aggregation is another.
        TraceError: A model that was never called does so in ``fit``.
    """
    if name is None and self._metrics:
        return  # the value is that of one of its metrics, which fit shows
    if name is None:
        raise ValueError("add_metric needs the name of the result: add_metric(value, name='activity').")
    if aggregation not in ("mean", None):
        raise ValueError(f"add_metric takes aggregation='mean' alone, got {aggregation!r}.")
    if isinstance(value, keras.KerasTensor):
        compute_too(_functional(self, "add_metric"), AddMetric(name)(value))
    else:
        mean = own_metric(self, name, functools.partial(keras.metrics.Mean, name=name))
        unknown = isinstance(value, jax.core.Tracer) and not is_bound(mean.variables[0])
        if unknown and not only_shapes_are_asked() and current_scope() is None:
            raise TraceError(
                f"{self.name!r} adds the metric {name!r} in its first call, which is in a step that is "
                "compiled already. Call the model on a batch before fit: model(x[:1])."
            )
        mean.update_state(value)


def _with_endpoints(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Functional.from_config``, which makes all layers and keeps those that lead to outputs."""

    def from_config(cls: type, *args: Any, **kwargs: Any) -> Any:
        model = original.__func__(cls, *args, **kwargs)  # type: ignore[attr-defined]
        seen = {id(operation): operation for operation in model.operations}
        waiting = list(seen.values())
        while waiting:
            for node in waiting.pop()._outbound_nodes:
                if isinstance(node.operation, AddLoss | AddMetric):
                    compute_too(model, node.outputs[0])
                elif id(node.operation) not in seen:
                    seen[id(node.operation)] = node.operation
                    waiting.append(node.operation)
        return model

    return functools.wraps(original)(from_config)


def _functional(model: Any, method: str) -> Any:
    if not isinstance(model, keras.src.models.Functional):
        raise ValueError(
            f"{method} takes Keras' tensors for functional models, keras.Model(inputs, outputs), alone; "
            f"{model.name!r} is a {type(model).__name__}. Call it with arrays, in `call`."
        )
    return model


def patch() -> None:
    """Give Keras' layers and models the names."""
    layer = keras.layers.Layer
    wrap(layer, "add_loss", _adding_tensors)
    functional = keras.src.models.Functional
    change(functional, "add_loss", layer.add_loss)  # its own says that it is not implemented
    change(functional, "from_config", classmethod(_with_endpoints(functional.from_config)))
    change(layer, "add_metric", _add_metric)
