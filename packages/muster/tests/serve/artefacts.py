"""Small saved models to serve."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np

from muster.data import FixedLenFeature, TensorSpec
from muster.saved_model import (
    CLASSIFY,
    PREDICT,
    REGRESS,
    Feature,
    Output,
    SignatureToSave,
    any_number_of_rows,
    save,
    symbolic_arguments,
    trace,
)

WORDS = ("no", "yes")


def save_model(folder: Path, factor: float, size: int = 2) -> None:
    """Write a model that multiplies the sum of vectors by a factor.

    Signatures: ``serving_default`` takes ``x``; ``both`` takes text, too, and returns words;
    ``classification`` and ``regression`` take Examples with ``x``.
    """
    text = TensorSpec((None,), object)
    numbers = TensorSpec((None, size), np.dtype(np.float32))

    def compute(weights, arguments):
        y = jnp.sum(arguments["x"], axis=1) * weights["factor"]
        scores = jnp.stack([1 - y, y], axis=1)
        return {"y": y, "scores": scores, "classes": jnp.broadcast_to(jnp.arange(2), scores.shape)}

    with any_number_of_rows():
        arguments = symbolic_arguments({"x": numbers}, (), None)
        computation = trace(compute, {"factor": jnp.float32(factor)}, arguments)
    parsed = Feature("inputs", ("x", FixedLenFeature((size,), "float32")))

    def signature(method, inputs, feature, **outputs):
        return SignatureToSave(
            method_name=method,
            inputs=inputs,
            outputs=outputs,
            computation=computation,
            features={"x": feature},
        )

    classes = {"classes": Output("classes", WORDS), "scores": Output("scores")}
    save(
        folder,
        {
            "serving_default": signature(PREDICT, {"x": numbers}, Feature("x"), y=Output("y")),
            "both": signature(PREDICT, {"x": numbers, "word": text}, Feature("x"), y=Output("y"), **classes),
            "classification": signature(CLASSIFY, {"inputs": text}, parsed, **classes),
            "regression": signature(REGRESS, {"inputs": text}, parsed, outputs=Output("y")),
        },
    )
