"""Where a coordinator does something else than TensorFlow's, on purpose."""

from departures import Departure

_SHARDED = "ShardedVariable"


def _errors_of_functions(asked, expect):
    """Programs of JAX raise no errors on values; the code of datasets does, which is what these cases use."""

    def ours(outcome):
        if isinstance(outcome, dict) and outcome.get("error", {}).get("type") == "InvalidArgumentError":
            return {"error": {"type": "ValueError", "message": "boom"}}
        return outcome

    return {"outcomes": [ours(each) for each in expect["outcomes"]]}


def _replaced(before, after):
    def instead(asked, expect):
        return {"outcomes": [after if each == before else each for each in expect["outcomes"]]}

    return instead


def _creates(asked, expect):
    if not any("creates a tf.Variable" in str(each) for each in asked["functions"].values()):
        return None
    if "schedule" not in asked["steps"][0]:
        return None
    message = "creates the variable"
    return {"outcomes": [{"error": {"type": "RuntimeError", "message": message}}, *expect["outcomes"][1:]]}


DEPARTURES = [
    Departure(
        "A compiled program raises nothing that depends on numbers: there is no assert_equal, and the "
        " inverse of a singular matrix is infinite. What raises on a worker is the code of datasets, "
        "whose own error comes up.",
        _errors_of_functions,
    ),
    Departure(
        "A function that creates a variable at every call raises TraceError, as elsewhere in muster.",
        _creates,
    ),
    Departure(
        "TensorFlow's names of the two classes are private.",
        _replaced(
            ["PerWorkerDatasetFromDatasetFunction", "PerWorkerDistributedIterator"],
            ["PerWorkerDataset", "PerWorkerIterator"],
        ),
    ),
    Departure(
        "A variable that is divided is one variable to Keras; which rows are where, its strategy knows.",
        _replaced(_SHARDED, "Variable"),
    ),
]
