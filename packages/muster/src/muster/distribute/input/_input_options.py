"""Options of distributed datasets."""

import enum
from dataclasses import dataclass


class InputReplicationMode(enum.Enum):
    """Modes of ``distribute_datasets_from_function``: call the function per worker or per replica.

    Source: tensorflow/python/distribute/distribute_lib.py, ``InputReplicationMode``.
    """

    PER_WORKER = "PER_WORKER"
    PER_REPLICA = "PER_REPLICA"


@dataclass(frozen=True)
class InputOptions:
    """Options of distributed datasets.

    Attributes:
        experimental_fetch_to_device: Accepted without effect: a batch always goes to the devices with its
            step, which is computed while the next batch is read.
        experimental_replication_mode: PER_REPLICA calls ``dataset_fn`` for each replica, PER_WORKER once.
        experimental_place_dataset_on_device: Accepted if TensorFlow does; input is read on the host.
        experimental_per_replica_buffer_size: Accepted without effect; ``Dataset.prefetch`` reads ahead.

    Raises:
        TypeError: The mode is no InputReplicationMode.
        ValueError: The buffer size is not positive.

    Source: tensorflow/python/distribute/distribute_lib.py, ``InputOptions``.
    """

    experimental_fetch_to_device: bool = True
    experimental_replication_mode: InputReplicationMode = InputReplicationMode.PER_WORKER
    experimental_place_dataset_on_device: bool = False
    experimental_per_replica_buffer_size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.experimental_replication_mode, InputReplicationMode):
            raise TypeError(
                "experimental_replication_mode is an InputReplicationMode, got "
                f"{self.experimental_replication_mode!r}."
            )
        size = self.experimental_per_replica_buffer_size
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"experimental_per_replica_buffer_size is a positive number, got {size!r}.")

    @property
    def per_replica(self) -> bool:
        """True if each replica has a separate dataset."""
        return self.experimental_replication_mode is InputReplicationMode.PER_REPLICA

    def check_for_dataset(self) -> None:
        """Check the options for ``experimental_distribute_dataset``.

        Raises:
            NotImplementedError: The mode is PER_REPLICA, as in TensorFlow.
            ValueError: The dataset is to be placed on the devices.
        """
        if self.per_replica:
            raise NotImplementedError(
                "InputReplicationMode.PER_REPLICA is only supported in `distribute_datasets_from_function`."
            )
        self.check_for_function()

    def check_for_function(self) -> None:
        """Check the options for ``distribute_datasets_from_function``.

        Raises:
            ValueError: The dataset is to be placed on the devices, and the other options rule that out.

        Source: tensorflow/python/distribute/input_util.py, ``get_distributed_datasets_from_function``.
        """
        if not self.experimental_place_dataset_on_device:
            return
        if not self.per_replica:
            raise ValueError(
                "When `experimental_place_dataset_on_device` is set for dataset placement, you must also "
                "specify `PER_REPLICA` for the replication mode"
            )
        if self.experimental_fetch_to_device:
            raise ValueError(
                "`experimental_place_dataset_on_device` can not be set to True when "
                "experimental_fetch_to_device is True and replication mode is set to `PER_REPLICA`"
            )
