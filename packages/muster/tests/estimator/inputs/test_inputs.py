"""Input functions of arrays and data frames."""

import numpy as np
import pytest

from muster.estimator.inputs import numpy_input_fn, pandas_input_fn

X = {"a": np.arange(5), "b": np.arange(5) * 0.5}
Y = np.arange(5) * 10


class Series:
    """What pandas_input_fn uses of a pandas.Series."""

    def __init__(self, values, index=None):
        self._values = np.asarray(values, object if isinstance(values[0], str) else None)
        self.index = list(range(len(values))) if index is None else index

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._values, dtype)


class DataFrame:
    """What pandas_input_fn uses of a pandas.DataFrame."""

    def __init__(self, columns):
        self._columns = {name: Series(values) for name, values in columns.items()}
        self.columns = list(columns)
        self.index = next(iter(self._columns.values())).index

    def __getitem__(self, name):
        return self._columns[name]


def test_batches_run_on_over_the_ends_of_epochs():
    batches = list(numpy_input_fn(X, Y, batch_size=4, num_epochs=2, shuffle=False)())
    assert [labels.tolist() for _, labels in batches] == [[0, 10, 20, 30], [40, 0, 10, 20], [30, 40]]
    assert [features["b"].tolist() for features, _ in batches][-1] == [1.5, 2.0]


def test_shuffled_batches_have_the_labels_of_their_features():
    input_fn = numpy_input_fn(X, Y, batch_size=5, shuffle=True)
    orders = set()
    for _ in range(20):
        ((features, labels),) = input_fn()
        assert (features["a"] * 10).tolist() == labels.tolist()
        orders.add(tuple(labels.tolist()))
    assert len(orders) > 1
    assert {tuple(sorted(order)) for order in orders} == {tuple(Y.tolist())}


def test_arrays_without_names_and_without_labels():
    (batch,) = numpy_input_fn(np.eye(3), shuffle=False)()
    assert batch.tolist() == np.eye(3).tolist()


def test_input_without_end():
    dataset = numpy_input_fn(X, {"y": Y}, batch_size=3, num_epochs=None, shuffle=False)()
    batches = iter(dataset)
    assert [next(batches)[1]["y"].tolist() for _ in range(4)][-1] == [40, 0, 10]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((X, Y), ValueError, "shuffle must be provided and explicitly set"),
        ((X, Y, 128, 1, 1), ValueError, "shuffle must be provided"),
        (([1, 2], None, 128, 1, False), TypeError, "x must be a dict or array; got list"),
        (({}, None, 128, 1, False), ValueError, "x cannot be an empty dict"),
        ((X, {}, 128, 1, False), ValueError, "y cannot be empty dict"),
        ((X, {"a": Y}, 128, 1, False), ValueError, "1 duplicate keys are found in both x and y"),
        ((X, Y[:3], 128, 1, False), ValueError, "Length of tensors in x and y is mismatched"),
        ((X | {"c": np.arange(2)}, None, 128, 1, False), ValueError, "is mismatched"),
        ((X, Y, 0, 1, False), ValueError, "Invalid batch_size 0"),
    ],
)
def test_arguments_that_are_wrong(arguments, error, message):
    with pytest.raises(error, match=message):
        numpy_input_fn(*arguments)


def test_data_frames():
    frame = DataFrame({"age": [30, 40, 50], "city": ["ulm", "köln", "bonn"]})
    ((features, labels),) = pandas_input_fn(frame, Series([1.0, 0.0, 1.0]), shuffle=False)()
    assert features["age"].tolist() == [30, 40, 50]
    assert [str(city) for city in features["city"]] == ["ulm", "köln", "bonn"]
    assert labels.tolist() == [1.0, 0.0, 1.0]
    ((_, labels),) = pandas_input_fn(frame, DataFrame({"y": [3, 2, 1]}), shuffle=False)()
    assert labels["y"].tolist() == [3, 2, 1]


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (X, None, TypeError, "x must be a pandas.DataFrame; got dict"),
        (DataFrame({"target": [1, 2]}), Series([1, 2]), ValueError, "Cannot use name target"),
        (
            DataFrame({"a": [1, 2]}),
            Series([1, 2], index=[1, 2]),
            ValueError,
            "Index for x and y are mismatched",
        ),
    ],
)
def test_data_frames_that_are_wrong(x, y, error, message):
    with pytest.raises(error, match=message):
        pandas_input_fn(x, y, shuffle=False)
