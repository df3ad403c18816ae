"""Feature columns against the cases recorded from TensorFlow."""

import numpy as np
import pytest

import canned
import columns
import recorded
from muster._keras import keras
from muster.feature_column import (
    CategoricalColumn,
    DenseFeatures,
    SequenceFeatures,
    _input_layers,
    categorical_column_with_identity,
    embedding_column,
    input_layer,
    linear_model,
    shared_embeddings,
)
from muster.feature_column._fingerprint import fingerprint64
from muster.feature_column._id_columns import buckets
from muster.feature_column._tables import new_table

_DEPARTURES = [columns.WORDS, canned.OWN_WORDS, *columns.DEPARTURES]


def constructed(case):
    built = columns.columns_of(case)
    if isinstance(built[0], CategoricalColumn):
        return {"num_buckets": built[0].num_buckets, "name": built[0].name}
    return built


def sparse(tensor, values):
    return {
        "kind": "SparseTensor",
        "values": np.asarray(values).tolist(),
        "indices": tensor.indices.tolist(),
        "dense_shape": list(tensor.shape),
    }


def ids(case):
    (column,) = columns.columns_of(case)
    found, weights = column.sparse_ids(columns.features_of(case))
    given = {} if weights is None else {"weights": sparse(found, weights)}
    return {"ids": sparse(found, found.values), "num_buckets": column.num_buckets, **given}


def dense(case):
    values = DenseFeatures(columns.columns_of(case))(columns.features_of(case))
    assert values.dtype == np.float32
    return {"value": np.asarray(values).tolist()}


def dense_by_function(case):
    return {"value": np.asarray(input_layer(columns.features_of(case), columns.columns_of(case))).tolist()}


def sequences(case):
    values, lengths = SequenceFeatures(columns.columns_of(case))(columns.features_of(case))
    return {"output": np.asarray(values).tolist(), "sequence_length": np.asarray(lengths).tolist()}


def linear(case):
    features, built = columns.features_of(case), columns.columns_of(case)
    wanted = {f"linear_model/{name}/weights": weights for name, weights in case["weights"].items()}
    wanted["linear_model/bias_weights"] = [case["bias"]]
    created = []

    def given(table):
        variable = new_table(table)
        created.append([variable.path, list(variable.shape)])
        variable.assign(wanted[variable.path])
        return variable

    initial = linear_model(features, built, case["units"], case["sparse_combiner"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_input_layers, "new_table", given)
        output = linear_model(features, built, case["units"], case["sparse_combiner"])
    return {
        "initial_output": np.asarray(initial).tolist(),
        "output": np.asarray(output).tolist(),
        "variables": sorted(created),
    }


def weights(case):
    layer = DenseFeatures(columns.columns_of(case))
    layer.build()
    return {
        "names": [variable.path for variable in layer.weights],
        "shapes": [list(variable.shape) for variable in layer.weights],
    }


def evaluated(case):
    api = case["api"]
    if api.startswith("tf.fingerprint"):
        return {"fingerprints": list(map(str, fingerprint64([text.encode() for text in case["strings"]])))}
    if api.startswith("tf.strings"):
        return {"buckets": buckets(np.array(case["strings"], object), 1000000007).tolist()}
    if "embedding_column(categorical" in api:
        return embedding_column(categorical_column_with_identity("c", 3), **case["kwargs"])
    if api.startswith("shared_embeddings"):
        shared = shared_embeddings([categorical_column_with_identity(key, 3) for key in "qp"], 2)
        return {"column_names": [column.name for column in shared], "weights": []}
    if api == "column.name":
        built = columns.columns_of(case)
        return {
            "names": [column.name for column in built],
            "types": [type(column).__name__ for column in built],
        }
    calls = {
        "construct": constructed,
        "categorical_column.get_sparse_tensors": ids,
        "DenseFeatures": dense,
        "DenseFeatures (graph)": dense,
        "DenseFeatures(...).weights": weights,
        "input_layer": dense_by_function,
        "compat.v1.feature_column.linear_model": linear,
        "tf.keras.experimental.SequenceFeatures": sequences,
    }
    return calls[api](case)


@pytest.mark.parametrize("case", recorded.cases("feature_columns", departures=_DEPARTURES))
def test_as_tensorflow(case):
    keras.utils.clear_session(free_memory=False)  # a collection takes seconds in a large process
    if "error" in case["expect"]:
        with canned.error_of(case["expect"]["error"]):
            evaluated(case["input"])
    else:
        found = evaluated(case["input"])
        recorded.check_same({key: found[key] for key in case["expect"]}, case["expect"])


def test_the_departures_are_of_use():
    assert recorded.unused("feature_columns", _DEPARTURES) == []
