"""A function that makes datasets, as the input of ``fit``."""

from collections.abc import Callable
from typing import Any

from muster.data import Dataset, dataset_line
from muster.distribute.input._input_context import InputContext
from muster.distribute.input._input_options import InputOptions


class DatasetCreator:
    """A function of the input context that returns a dataset, for ``fit``, ``evaluate`` and ``predict``.

    Each worker calls it once, or for each of its replicas, and takes batches of one replica from what it
    returns. An epoch continues in the pass of the one before.

    Args:
        dataset_fn: Called with an InputContext; returns a Dataset of batches for one replica.
        input_options: As for ``Strategy.distribute_datasets_from_function``.

    Raises:
        TypeError: An argument has another type.

    Source: keras/src/utils/dataset_creator.py, ``DatasetCreator``.

    Example:
        ```python
        def dataset_fn(context):
            data = Dataset.from_tensor_slices((np.ones((64, 4)), np.ones((64, 1)))).repeat()
            return data.batch(context.get_per_replica_batch_size(16))

        creator = muster.distribute.DatasetCreator(dataset_fn)  # model.fit(creator, steps_per_epoch=4)
        ```
    """

    def __init__(
        self, dataset_fn: Callable[[InputContext], Dataset], input_options: InputOptions | None = None
    ) -> None:
        if not callable(dataset_fn):
            raise TypeError(f"`dataset_fn` for `DatasetCreator` must be a `callable`. Received: {dataset_fn}")
        if input_options is not None and not isinstance(input_options, InputOptions):
            raise TypeError(
                "`input_options` for `DatasetCreator` must be a `tf.distribute.InputOptions`. Received: "
                f"{input_options}"
            )
        self.dataset_fn = dataset_fn
        self.input_options = input_options

    def __call__(self, *args: Any, **kwargs: Any) -> Dataset:
        """Call the function.

        Raises:
            TypeError: It returns something else than a Dataset.
        """
        dataset = self.dataset_fn(*args, **kwargs)
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"The `callable` provided to `DatasetCreator` must return a Dataset. It returns {dataset!r}."
                f"{dataset_line(dataset)}"
            )
        return dataset

    def check_steps(self, steps: int | None) -> None:
        """Check that the number of batches of a call is given, which a function does not tell.

        Raises:
            ValueError: It is not.
        """
        if steps is None:
            raise ValueError(
                "When using a `tf.keras.utils.experimental.DatasetCreator`, say how many batches to take: "
                "`steps_per_epoch`, `validation_steps` or `steps` must be provided in `Model.fit`, "
                "`Model.evaluate` or `Model.predict`."
            )
