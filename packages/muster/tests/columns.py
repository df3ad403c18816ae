"""The recorded cases of feature columns: how they are read, and where muster departs."""

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from canned import arrays
from departures import Departure, Json, error
from muster import feature_column
from muster.data import SparseTensor

_NORMALIZERS = {"x*2+1": lambda x: x * 2 + 1, "(x-3)/2": lambda x: (x - 3) / 2, "not callable": 5}


def made(described: Any) -> Any:
    """Return the column that a case describes; a list of them for shared embeddings."""
    if isinstance(described, list):
        return [made(each) for each in described]
    if not isinstance(described, dict):
        return described
    arguments = {key: made(value) for key, value in described.items() if key != "fc"}
    if arguments.get("dtype") == "string":
        arguments["dtype"] = str
    if "normalizer_fn" in arguments:
        arguments["normalizer_fn"] = _NORMALIZERS[arguments["normalizer_fn"]]
    if (weights := arguments.pop("weights", None)) is not None:
        arguments["initializer"] = lambda shape, dtype=None: np.asarray(weights, dtype).reshape(shape)
    if (lines := arguments.pop("vocabulary_file_lines", None)) is not None:
        end = arguments.pop("line_end", "\n")
        text = end.join(lines) + arguments.pop("file_end", end)
        arguments["vocabulary_file"] = _kept(text)
    return getattr(feature_column, described["fc"])(**arguments)


def columns_of(case: Json) -> list[Any]:
    """Return the columns of a case, in order."""
    columns: list[Any] = []
    for column in made(case["columns"]):
        columns += column if isinstance(column, list) else [column]
    return columns


def features_of(case: Json) -> dict[str, Any]:
    """Return the features of a case."""
    sparse = {key: given for key, given in case["features"].items() if "indices" in given}
    dense = arrays({key: given for key, given in case["features"].items() if key not in sparse})
    return dense | {
        key: SparseTensor(
            given["indices"],
            np.array(given["values"], None if given["dtype"] == "string" else given["dtype"]),
            given["dense_shape"],
        )
        for key, given in sparse.items()
    }


_FOLDER = tempfile.TemporaryDirectory()


def _kept(text: str) -> str:
    path = Path(_FOLDER.name, f"{abs(hash(text))}.txt")
    path.write_bytes(text.encode())
    return str(path)


def _words(asked: Json, expect: Json) -> Json | None:
    kind, said = (expect.get("error", {}).get(part, "") for part in ("type", "message"))
    column = next(iter(asked.get("columns", ())), {})
    if "Input to reshape is a tensor" in said and column["fc"] == "embedding_column":
        return error("ValueError", "Column c_embedding has values of shape (2, 2, 2)")
    if "is not in [0, 3) [Op:ResourceGather]" in said:
        return error("ValueError", "Column c: the id 7 of example 1 is not in [0, 3)")
    if "Eager execution of tf.constant" in said:
        return error("ValueError", "cannot reshape array of size 2 into shape (3,2)")
    if "Invalid vocab_size in <PATH>" in said:
        return error("ValueError", "expected 9 but got 4")
    if "Condition x == y did not hold" in said:
        return error("ValueError", "Condition x == y did not hold")
    for cut in (
        "Items of feature_columns must be a",
        "To use shared_embedding_column, all categorical_columns must have the same type",
        "In indicator_column",
    ):
        if said.startswith(cut):
            return error(kind, cut)
    if "<dtype: '" in said:
        return error(kind, re.sub(r"<dtype: '(\w+)'>", r"\1", said))
    return None


def _loose(asked: Json, expect: Json) -> Json | None:
    column = next(iter(asked.get("columns", ())), {})
    if column.get("fc") == "indicator_column" and asked["api"] == "DenseFeatures" and "features" in asked:
        values = asked["features"].get("c", {}).get("values")
        if values == [[0], [7]]:
            return error("ValueError", "Column c: the id 7 of example 1 is not in [0, 4)")
    return None


def _eager_shared(asked: Json, expect: Json) -> Json | None:
    if "not supported when eager execution is enabled" in expect.get("error", {}).get("message", ""):
        return {"value": [[2.0, 3.5, 3.0, 5.0], [7.0, 11.0, 1.0, 2.0]]}
    return None


def _normalized(asked: Json, expect: Json) -> Json | None:
    if "'SparseTensor' and 'float'" in expect.get("error", {}).get("message", ""):
        return {"output": [[[3.0], [5.0], [0.0]], [[21.0], [0.0], [0.0]]], "sequence_length": [2, 1]}
    return None


def _lost_row(asked: Json, expect: Json) -> Json | None:
    column = next(iter(asked.get("columns", ())), {})
    if column.get("use_safe_embedding_lookup") is False and len(expect["value"]) == 1:
        return {"value": [*expect["value"], [0.0, 0.0]]}
    return None


def _names(asked: Json, expect: Json) -> Json | None:
    if "DenseFeatures(...).weights" not in asked["api"]:
        return None
    return {**expect, "names": [re.sub(r"_\d+/(.*):0$", r"/\1", name) for name in expect["names"]]}


WORDS = Departure(
    "TensorFlow's words are those of an operation, or print columns and dtypes in its own way.", _words
)
DEPARTURES = [
    Departure("An id out of range is refused; TensorFlow's indicator_column counts it as nothing.", _loose),
    Departure("shared_embeddings work everywhere; TensorFlow's need a graph.", _eager_shared),
    Departure(
        "normalizer_fn gets numbers; TensorFlow's gets a tensor with which it cannot compute.", _normalized
    ),
    Departure("Examples without ids are never lost; TensorFlow loses the last ones.", _lost_row),
    Departure("Names of variables do not count layers, and end without ':0'.", _names),
]
