"""The oracles of feature columns, heads and canned Estimators: what is run of them, and what comes later."""

import contextlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest

import recorded
from departures import DEPARTURES, Departure

_COLUMNS = "Columns other than numeric_column are not there yet."
_HEADS = "Heads other than that of regression are not there yet."
_HEAD_OPTIONS = "LinearRegressor gives its head no name, loss_fn, inverse_link_fn or regularization losses."
_MODELS = "Canned Estimators other than LinearRegressor are not there yet."
_V1 = "The canned Estimators of TensorFlow 1 are not there."

# By file and family of cases: what has no counterpart in muster yet.
LATER = {
    "feature_columns": {
        "numeric/categorical_not_dense": _COLUMNS,
        **{
            f"{family}/*": _COLUMNS
            for family in (
                "bucketized",
                "crossed",
                "embedding",
                "hash",
                "identity",
                "linear",
                "mix",
                "sequence",
                "shared",
                "vocab_file",
                "vocab_list",
                "weighted",
            )
        },
    },
    "heads": {
        **{
            f"{family}*": _HEADS
            for family in (
                "binary/",
                "multiclass/",
                "poisson/",
                "logistic/",
                "multilabel/",
                "multihead/",
                "construct/binary_",
                "construct/multi",
                "export/multi",
                "export/poisson",
            )
        },
        "regression/inverse_link_exp_loss_fn": _HEAD_OPTIONS,
        "regression/name": _HEAD_OPTIONS,
        "regression/regularization": _HEAD_OPTIONS,
        "export/regression_link": _HEAD_OPTIONS,
    },
    "canned_trajectories": {
        "linear_regressor/crossed": _COLUMNS,
        **{
            f"{family}/*": _MODELS
            for family in (
                "mirrored2",
                "linear_classifier",
                "baseline_classifier",
                "baseline_estimator",
                "baseline_regressor",
                "dnn_classifier",
                "dnn_estimator",
                "dnn_regressor",
                "dnn_linear_combined_classifier",
                "dnn_linear_combined_regressor",
                "errors",
            )
        },
        "v1.*": _V1,
    },
}

_OWN_WORDS = "TensorFlow's words are those of an operation, or print what muster prints differently."

DEPARTURES |= {
    f"feature_columns/numeric/{name}": Departure(
        _OWN_WORDS, {"error": {"type": "ValueError", "message": message}}
    )
    for name, message in {
        "wrong_shape": "Feature x has the shape (2, 2), and its column wants (2, 3).",
        "string_input": "Feature x has dtype <U1, and a column needs numbers.",
        "duplicate_columns": "Duplicate feature column name found for columns: NumericColumn(key='x', ",
        "construct/dtype_string": "dtype must be convertible to float. dtype: <U0, key: x",
    }.items()
}


def cases(file: str) -> list[Any]:
    """A pytest parameter for each case of a file that has a counterpart."""
    return recorded.cases(file, lambda case: not any(matches(family)(case["name"]) for family in LATER[file]))


def arrays(features: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The features of a case."""
    return {
        key: np.array(given["values"], None if given["dtype"] == "string" else given["dtype"])
        for key, given in features.items()
    }


@contextlib.contextmanager
def error_of(expected: dict[str, Any]) -> Iterator[None]:
    """Checks that what is done raises the error which a case expects."""
    with pytest.raises((TypeError, ValueError)) as caught:
        yield
    recorded.check_error(expected, caught.value)


def matches(family: str) -> Any:
    """Whether a case's name is of a family."""
    return lambda name: fnmatchcase(name, family)
