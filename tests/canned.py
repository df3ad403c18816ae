"""The recorded cases of feature columns, heads and canned Estimators: which of them are run."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import recorded
from departures import Departure, Json, error


def _parts(described: Any, tag: str) -> set[str]:
    """Return the kinds of all columns or heads in what a case describes."""
    if isinstance(described, list):
        return set().union(*(_parts(each, tag) for each in described))
    if not isinstance(described, dict):
        return set()
    kind = described.get(tag)
    return _parts(list(described.values()), tag) | ({kind} if isinstance(kind, str) else set())


_HEAD_OPTIONS = {"name", "loss_fn", "inverse_link_fn"}

# By file: what has no counterpart in muster yet, and how a case that needs it is known.
LATER: dict[str, dict[str, Callable[[Json], bool]]] = {
    "heads": {
        "Heads other than that of regression are not there yet.": lambda asked: (
            _parts(asked["head"], "head") != {"RegressionHead"}
        ),
        "LinearRegressor gives its head no name, loss_fn, inverse_link_fn or regularization losses.": (
            lambda asked: bool(_HEAD_OPTIONS & set(asked["head"])) or "regularization_losses" in asked
        ),
    },
    "canned_trajectories": {
        "Canned Estimators other than LinearRegressor are not there yet.": lambda asked: (
            asked["estimator"]["class"] != "LinearRegressor"
        ),
        "The canned Estimators of TensorFlow 1 are not there.": lambda asked: (
            asked["estimator"]["api"] == "tf.compat.v1.estimator"
        ),
        "RMSprop is Keras 3's, with epsilon under the root.": lambda asked: str(
            asked["estimator"]["args"].get("optimizer")
        ).startswith("legacy.RMSprop"),
    },
}


def _own_words(asked: Json, expect: Json) -> Json | None:
    kind, said = (expect.get("error", {}).get(part, "") for part in ("type", "message"))
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


def cases(file: str) -> list[Any]:
    """Return a pytest parameter for each case of a file that has a counterpart."""
    later = LATER[file].values()
    return recorded.cases(file, lambda case: not any(about(case["input"]) for about in later), [OWN_WORDS])


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
