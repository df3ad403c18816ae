"""The recorded cases of feature columns, heads and canned Estimators: which of them are run."""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import recorded
from departures import Departure, Json, error
from muster._keras import keras


def _swapped(asked: Json, expect: Json) -> Json | None:
    said = expect.get("error", {}).get("message", "")
    if not said.startswith("Could not split logits"):
        return None
    return error("ValueError", said.partition(" The last dimension")[0])


def _own_words(asked: Json, expect: Json) -> Json | None:
    kind, said = (expect.get("error", {}).get(part, "") for part in ("type", "message"))
    if "estimator" in asked:
        return error(kind, said.partition("<keras")[0]) if "<keras" in said else None
    if "head" in asked:
        if "<tensorflow" in said:
            return error(kind, said.partition("<tensorflow")[0])
        if "Cast string to float" in said:
            return error("ValueError", "Labels dtype should be integer. Instead got <U")
        given = "<U" if "<dtype: 'string'>" in said else "int32" if "<dtype: 'int32'>" in said else None
        return error(kind, f"{said.partition('<dtype')[0]}{given}") if given else None
    column = next(iter(asked.get("columns", ())), {})
    key = column.get("key")
    refused = "Input to reshape is a tensor" in said or "Cast string to float" in said
    if refused and column["fc"] == "numeric_column":
        values = arrays(asked["features"])[key]
        if values.dtype.kind == "U":
            return error("ValueError", f"Feature {key} has dtype {values.dtype}, and a column needs numbers.")
        wanted = (len(values), *column.get("shape", (1,)))
        return error(
            "ValueError", f"Feature {key} has the shape {values.shape}, and its column wants {wanted}."
        )
    if said.startswith("Duplicate feature column name found"):
        return error(kind, said.partition("shape=")[0])
    return error(kind, said.replace("<dtype: 'string'>", "<U0")) if "<dtype: 'string'>" in said else None


OWN_WORDS = Departure(
    "TensorFlow's words are those of an operation, or print what muster prints differently.", _own_words
)


def _two_features(asked: Json, expect: Json) -> Json | None:
    failed = "iterator has not been initialized" in expect.get("error", {}).get("message", "")
    return {"trains": True} if failed else None


def _trapezoids(asked: Json, expect: Json) -> Json | None:
    """Return the area that metrics of `tf.estimator`, version 2, give for the recorded predictions."""
    if asked["estimator"]["api"] == "tf.estimator" or "auc_precision_recall" not in expect.get(
        "evaluate", {}
    ):
        return None
    metric = keras.metrics.AUC(curve="PR")
    metric.update_state(asked["labels"], [each["logistic"][0] for each in expect["predict"]])
    area = float(metric.result())
    if math.isclose(area, expect["evaluate"]["auc_precision_recall"], rel_tol=1e-4):
        return None
    return expect | {"evaluate": expect["evaluate"] | {"auc_precision_recall": area}}


TRAPEZOIDS = Departure(
    "TensorFlow 1 takes the trapezoidal rule for precision and recall, by which areas are too large.",
    _trapezoids,
)
SEVERAL_FEATURES = Departure(
    "TensorFlow reads the input of a Baseline model a second time if it has several features, and fails.",
    _two_features,
)
SWAPPED = Departure("TensorFlow swaps the two numbers in what it says.", _swapped)

DEPARTURES = {
    "heads": [OWN_WORDS, SWAPPED],
    "canned_trajectories": [OWN_WORDS, SEVERAL_FEATURES, TRAPEZOIDS],
}


def cases(file: str, wanted: Callable[[Json], bool] = lambda case: True) -> list[Any]:
    """Return a pytest parameter for each wanted case of a file."""
    return recorded.cases(file, wanted, DEPARTURES[file])


def arrays(features: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the features of a case."""
    return {
        key: np.array(given["values"], None if given["dtype"] == "string" else given["dtype"])
        for key, given in features.items()
    }


@contextlib.contextmanager
def error_of(expected: dict[str, Any]) -> Iterator[None]:
    """Check that what is done raises the error which a case expects."""
    with pytest.raises((TypeError, ValueError)) as caught:
        yield
    recorded.check_error(expected, caught.value)
