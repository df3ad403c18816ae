"""A front end shows programs its own values, once it is installed, and no longer when it is taken away."""

from collections.abc import Iterator

import numpy as np
import pytest

from muster.data import Dataset, RaggedTensor
from muster.distribute import OneDeviceStrategy
from muster.extend import Frontend, install


@pytest.fixture(autouse=True)
def _without_a_front_end() -> Iterator[None]:
    yield
    install(None)


def test_elements_arguments_and_parts_are_shown() -> None:
    install(
        Frontend(
            elements=lambda elements: [f"element {each}" for each in elements],
            argument=lambda element: element + 10,
            part=lambda value: list(value),
        )
    )
    numbers = Dataset.range(2).map(lambda number: number)
    assert list(numbers) == ["element 10", "element 11"]
    assert list(numbers.as_numpy_iterator()) == [10, 11]
    assert Dataset.range(3).reduce(0, lambda state, number: state) == "element 0"
    assert RaggedTensor(np.arange(3), [0, 1, 3]).values == [0, 1, 2]
    install(None)
    assert list(Dataset.range(2)) == [0, 1]
    assert isinstance(RaggedTensor(np.arange(3), [0, 1, 3]).values, np.ndarray)


def test_batches_of_strategies_are_shown() -> None:
    install(Frontend(batch=lambda batch: ("shown", float(batch.sum()))))
    batches = OneDeviceStrategy("cpu:0").experimental_distribute_dataset(Dataset.range(4).batch(4))
    assert list(batches) == [("shown", 6.0)]


def test_code_that_python_decides_runs_uncompiled_after_the_errors_of_a_front_end() -> None:
    strategy = OneDeviceStrategy("cpu:0")

    def sign(value):
        return 1 if value.sum() > 0 else -1

    with pytest.raises(Exception, match="bool"):
        strategy.run(sign, (np.ones(2),))
    import jax

    install(Frontend(uncompiled_after=(jax.errors.TracerBoolConversionError,)))
    assert strategy.run(sign, (np.ones(2),)) == 1


def test_a_trace_that_fails_is_mended() -> None:
    from muster import function

    ways = []

    @function
    def add(value):
        if not ways:
            raise RuntimeError("this cannot be traced")
        return value + 1

    def mend(error: Exception) -> bool:
        ways.append(error)
        return isinstance(error, RuntimeError)

    with pytest.raises(RuntimeError, match="cannot be traced"):
        add(np.float32(1))
    install(Frontend(mend=mend))
    assert add(np.float32(1)) == 2
    assert len(ways) == 1


def test_code_that_would_run_uncompiled_is_not_mended() -> None:
    def double(value):
        if not isinstance(value, np.ndarray):
            raise NotImplementedError("this cannot be traced")
        return 2 * value

    errors: list[Exception] = []
    install(Frontend(mend=lambda error: bool(errors.append(error)), uncompiled_after=(NotImplementedError,)))
    assert OneDeviceStrategy("cpu:0").run(double, (np.ones(2),)).tolist() == [2, 2]
    assert errors == []


def test_a_second_front_end_is_refused() -> None:
    first = Frontend(argument=lambda element: element)
    assert install(first) is None
    assert install(first) is first
    with pytest.raises(ValueError, match="A front end is installed already"):
        install(Frontend(argument=lambda element: -element))
    assert install(None) is first
