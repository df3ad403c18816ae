"""Give labels the rank of outputs in steps, and one array of labels to all outputs, as Keras 2 does.

Labels may also be a dict by names where the model has a single output.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax

from muster import keras
from muster_tensorflow.patches import change


def as_columns(values: Any, outputs: Any, names: list[str] | None) -> Any:
    """Return labels or weights in which a vector that belongs to a matrix of outputs is a column.

    Without it a metric of the program's own would compare each label with the outputs of all rows.

    Args:
        values: The labels or weights, in the structure of the outputs, or a dict by their names.
        outputs: What the model returned.
        names: The names of the outputs, if it returns a list.

    Source: keras/engine/compile_utils.py of TensorFlow 2.15, ``match_dtype_and_rank``.
    """
    if isinstance(values, dict):
        if not isinstance(outputs, dict):
            listed = outputs if isinstance(outputs, list | tuple) else [outputs]
            outputs = dict(zip(names or (), listed, strict=False))
        return {name: as_columns(value, outputs.get(name), None) for name, value in values.items()}
    if isinstance(values, list | tuple):
        if not isinstance(outputs, list | tuple) or len(outputs) != len(values):
            return values
        return type(values)(
            as_columns(value, output, None) for value, output in zip(values, outputs, strict=True)
        )
    if len(getattr(values, "shape", ())) == 1 and len(getattr(outputs, "shape", ())) == 2:
        return keras.ops.expand_dims(values, -1)
    return values


def _of_single_output(model: Any, values: Any, output: Any) -> Any:
    """Return labels or weights that are a dict by the name of the only output; anything else as it is.

    Raises:
        ValueError: There are values for other names.

    Source: keras/src/engine/compile_utils.py of Keras 2.15, ``map_to_output_names``.
    """
    if not isinstance(values, dict) or not hasattr(output, "shape"):
        return values
    if isinstance(model, keras.Sequential):
        name = model.layers[-1].name
    else:
        name = (getattr(model, "output_names", None) or ["output_1"])[0]
    if values.keys() - {name}:
        raise ValueError(f"The model has one output, {name!r}, and there are values for {sorted(values)}.")
    return values.get(name)


def _of_rank(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``compute_loss`` or ``compute_metrics``: labels and weights get the rank of the outputs."""

    @functools.wraps(original)
    def compute(
        self: Any,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        names = getattr(self, "output_names", None)
        if hasattr(y, "shape") and isinstance(y_pred, list | tuple | dict):
            y = jax.tree.map(lambda _: y, y_pred)
        y, sample_weight = (_of_single_output(self, each, y_pred) for each in (y, sample_weight))
        if isinstance(sample_weight, dict) and isinstance(y_pred, list | tuple) and names:
            if unknown := sample_weight.keys() - set(names):
                raise ValueError(
                    f"sample_weight has {sorted(unknown)}; the model's outputs are {list(names)}."
                )
            sample_weight = [sample_weight.get(name) for name in names]  # Keras 3 needs the outputs' order
        y, sample_weight = (as_columns(each, y_pred, names) for each in (y, sample_weight))
        return original(self, x, y, y_pred, sample_weight, *args, **kwargs)

    return compute


def patch() -> None:
    """Give Keras' models the behaviour."""
    for name in ("compute_loss", "compute_metrics"):
        owner = next(each for each in keras.Model.__mro__ if name in vars(each))
        change(owner, name, _of_rank(getattr(keras.Model, name)))
