"""Bad input: what is wrong, the value, what to do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dataset_model import read

from muster._errors import DatasetError
from muster.data import Dataset, TensorSpec


def _yielding(values: list[Any], spec: Any) -> Dataset:
    return Dataset.from_generator(lambda: iter(values), output_signature=spec)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Dataset.from_tensor_slices((np.ones(3), np.ones(4))), DatasetError, r"lengths \[3, 4\]"),
        (lambda: Dataset.from_tensor_slices(5), ValueError, "first axis.*from_tensors"),
        (lambda: Dataset.from_tensor_slices(()), ValueError, "at least one array"),
        (lambda: Dataset.from_tensor_slices({}), ValueError, "at least one array"),
        (lambda: Dataset.from_tensor_slices([[1, 2], [3]]), DatasetError, "nested list"),
        (lambda: Dataset.from_tensors(()), ValueError, "at least one value"),
        (lambda: Dataset.range(), TypeError, "range"),
        (lambda: Dataset.range(1, 2, 0), ValueError, "zero"),
        (lambda: Dataset.range(3).batch(0), ValueError, "batch_size must be at least 1, got 0"),
        (lambda: Dataset.range(3).batch(-2), ValueError, "got -2"),
        (lambda: Dataset.range(3).batch(2.5), TypeError, "batch_size must be an integer, got 2.5"),
        (lambda: Dataset.range(3).batch(True), TypeError, "got True"),
        (lambda: Dataset.range(3).padded_batch(0), ValueError, "got 0"),
        (lambda: Dataset.range(3).shuffle(0), ValueError, "buffer_size must be at least 1, got 0"),
        (lambda: Dataset.range(3).shuffle(3, seed="a"), TypeError, "seed must be an integer, got 'a'"),
        (lambda: Dataset.range(3).shuffle(3, seed=1.0), TypeError, "seed must be an integer, got 1.0"),
        (lambda: Dataset.range(3).shard(0, 0), ValueError, "num_shards must be at least 1, got 0"),
        (lambda: Dataset.range(3).shard(2, 2), ValueError, "index 2 and num_shards 2"),
        (lambda: Dataset.range(3).shard(2, -1), ValueError, "index -1"),
        (lambda: Dataset.range(3).take(-2), ValueError, "count must be at least -1, got -2"),
        (lambda: Dataset.range(3).skip("x"), TypeError, "count must be an integer, got 'x'"),
        (lambda: Dataset.range(3).repeat(-2), ValueError, "got -2"),
        (lambda: Dataset.range(3).prefetch(-2), ValueError, "got -2"),
        (lambda: Dataset.range(3).map(3), TypeError, "map needs a function, got 3"),
        (lambda: Dataset.range(3).filter(None), TypeError, "filter needs a function"),
        (lambda: Dataset.zip(()), TypeError, "zip needs datasets"),
        (lambda: Dataset.zip((Dataset.range(3), 4)), TypeError, "zip needs datasets"),
        (lambda: Dataset.range(3).concatenate([1]), TypeError, r"concatenate needs a Dataset, got \[1\]"),
        (lambda: Dataset.range(3).with_options({}), TypeError, "Options"),
        (lambda: Dataset.from_generator(lambda: iter([])), TypeError, "output_signature"),
        (lambda: _yielding([], ()), ValueError, "at least one TensorSpec"),
        (lambda: _yielding([], np.float32), TypeError, "structure of TensorSpec, got"),
        (
            lambda: Dataset.from_generator([1], output_types=np.int32),
            TypeError,
            r"function that returns an iterable, got \[1\]",
        ),
        (lambda: TensorSpec((-1,)), ValueError, "sizes >= 0"),
    ],
)
def test_wrong_arguments(build: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


_PAIR = (TensorSpec((2,), np.float32), TensorSpec((), np.int32))
_RAGGED = _yielding([[1], [1, 2]], TensorSpec((None,), np.int32))


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (
            _RAGGED.batch(2),
            r"element 0 of the batch has shape \(1,\), element 1 has shape \(2,\).*padded_batch",
        ),
        (_RAGGED.padded_batch(2, padded_shapes=(1,)), r"shape \(2,\) to the smaller shape \(1,\)"),
        (_RAGGED.padded_batch(2, padded_shapes=(1, 1)), r"padded_shapes says \(1, 1\) .* shape \(1,\)"),
        (_RAGGED.padded_batch(2, padded_shapes=((1,), (1,))), "padded_shapes has the structure"),
        (Dataset.range(3).unbatch(), r"first axis.*\(\)"),
        (Dataset.range(3).rebatch(2), r"rebatch cut .* first axis.*\(\)"),
        (
            Dataset.range(5).padded_batch(2).map(lambda x: np.zeros((2, int(x[0])))).rebatch(4),
            "rebatch joins rows",
        ),
        (Dataset.from_tensors((np.ones(2), np.ones(3))).unbatch(), r"\(2,\), \(3,\)"),
        (_yielding([([1.0, 2.0], 3), ([1.0], 3)], _PAIR), r"\[1.0\].* float32\[1\].* float32\[2\]"),
        (_yielding([([1.0, 2.0], 3.5)], _PAIR), r"3.5.* float32\[\].* int32\[\]"),
        (_yielding([([1.0, 2.0], 2**40)], _PAIR), r"1099511627776.* int64\[\].* int32\[\]"),
        (_yielding([([1.0, 2.0], "x")], _PAIR), r"'x'.* str\[\].* int32\[\]"),
        (_yielding([[1.0, 2.0]], _PAIR), r"expected \(\*, \*\), got a value of type list"),
        (_yielding([(1, 2, 3)], _PAIR), r"expected \(\*, \*\), got \(\*, \*, \*\)"),
        (_yielding([{"a": 1}], {"b": TensorSpec((), np.int32)}), r"expected \{'b': \*\}, got \{'a': \*\}"),
        (_yielding([5], TensorSpec((), str)), r"5, which is int32\[\], .* str\[\]"),
        (_yielding([300], TensorSpec((), np.uint8)), r"300, which is int32\[\], .* uint8\[\]"),
        (
            Dataset.range(4).map(lambda x: (1.5 if int(x) else 2) * 1).batch(4),
            r"element 0 of the batch is int32\[\], element 1 is float32\[\]",
        ),
        (
            Dataset.range(4).map(lambda x: {"a": 1} if int(x) else {"b": 1}).batch(4),
            r"expected \{'b': \*\}, got \{'a': \*\}",
        ),
        (
            Dataset.range(4).map(lambda x: np.zeros((1,) * (1 + int(x)))).padded_batch(4),
            r"different ranks.*\(1,\), element 1 has shape \(1, 1\)",
        ),
        (Dataset.range(3).filter(lambda x: x * 1.5), "one boolean, it returned"),
        (Dataset.range(3).filter(lambda x: "yes"), "one boolean, it returned 'yes'"),
        (Dataset.range(3).concatenate(Dataset.from_tensor_slices(["a"])), "cannot concatenate.*int64.*str"),
        (Dataset.range(3).concatenate(Dataset.range(3).enumerate()), r"cannot concatenate.*int64\[\], int64"),
    ],
)
def test_wrong_data(dataset: Dataset, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        read(dataset)


def test_a_generator_function_that_returns_no_iterable() -> None:
    with pytest.raises(TypeError, match="returns an iterable, <function .* returned 5"):
        read(Dataset.from_generator(lambda: 5, output_signature=TensorSpec((), np.int32)))  # type: ignore


def test_elements_before_a_wrong_one_arrive() -> None:
    with _yielding([1, 2, "x", 4], TensorSpec((), np.int32)).iterator() as iterator:
        assert [int(next(iterator)), int(next(iterator))] == [1, 2]
        with pytest.raises(DatasetError, match="'x'"):
            next(iterator)


def test_spec_of_an_empty_python_map_is_unknown() -> None:
    with pytest.raises(DatasetError, match="dataset is empty"):
        _ = Dataset.range(0).map(lambda x: str(int(x))).element_spec


def test_wrong_specs() -> None:
    with pytest.raises(DatasetError, match="Leave unbatch out"):
        _ = Dataset.range(3).unbatch().element_spec
