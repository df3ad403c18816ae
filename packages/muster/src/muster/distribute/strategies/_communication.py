"""Options of the collectives between workers: implementation, packs and timeout."""

import dataclasses
import enum
import logging
from typing import Self

_log = logging.getLogger(__name__)


class CommunicationImplementation(enum.Enum):
    """The implementation of collectives.

    Source: tensorflow/python/distribute/collective_util.py, ``CommunicationImplementation``.
    """

    AUTO = "AUTO"  # NCCL between GPUs, else RING
    RING = "RING"  # sockets between the processes
    NCCL = "NCCL"  # between GPUs


@dataclasses.dataclass(frozen=True)
class CommunicationOptions:
    """Options of collectives between workers.

    Args:
        bytes_per_pack: Gradients are reduced in packs that are closed once they exceed this; 0 for one pack.
        timeout_seconds: The seconds that a worker may be silent before the others give it up; None or 0 for
            30. It also limits how long a worker that answers may keep the others waiting for a step: choose
            more than the time of hooks at a step; None or 0 for ten minutes. Evaluating and saving do not
            count.
        implementation: An enum value or its name in any case.

    Raises:
        ValueError: A value is out of range.
        TypeError: ``bytes_per_pack`` or ``timeout_seconds`` is not a number.

    Source: tensorflow/python/distribute/collective_util.py, ``Options``, which takes a timeout below zero.

    Example:
        ```python
        patient = muster.distribute.CommunicationOptions(timeout_seconds=120)
        strategy = muster.distribute.MultiWorkerMirroredStrategy(communication_options=patient)
        ```
    """

    bytes_per_pack: int = 0
    timeout_seconds: float | None = None
    implementation: CommunicationImplementation | str = CommunicationImplementation.AUTO

    def __post_init__(self) -> None:
        if self.bytes_per_pack < 0:
            raise ValueError(f"Argument `bytes_per_pack` must be >=0, Received {self.bytes_per_pack}.")
        if self.timeout_seconds is not None and self.timeout_seconds < 0:
            raise ValueError(f"Argument `timeout_seconds` must be >=0, Received {self.timeout_seconds}.")
        value = self.implementation
        if isinstance(value, str) and value.upper() in CommunicationImplementation.__members__:
            object.__setattr__(self, "implementation", CommunicationImplementation[value.upper()])
        elif not isinstance(value, CommunicationImplementation):
            raise ValueError(
                "Argument `implementation` must be instance of "
                f"`tf.distribute.experimental.CommunicationImplementation`. Received {value!r}; there are "
                f"{', '.join(CommunicationImplementation.__members__)}."
            )

    def check_platform(self, platform: str) -> None:
        """Log a warning if the platform has another implementation; ``platform`` is JAX's name of it.

        Source: tensorflow/python/distribute/collective_all_reduce_strategy.py, which warns likewise where
        there are no GPUs.
        """
        if self.implementation is CommunicationImplementation.NCCL and platform == "cpu":
            _log.warning("CommunicationImplementation.NCCL is for GPUs, and JAX has none here: RING is used.")
        if self.implementation is CommunicationImplementation.RING and platform != "cpu":
            _log.warning(
                "CommunicationImplementation.RING is for CPUs: XLA chooses the algorithm on %s.", platform
            )

    def merge(self, options: Self | None) -> Self:
        """Return these options, replaced by those of ``options`` that are not defaults."""
        if options is None:
            return self
        changed = {
            field.name: getattr(options, field.name)
            for field in dataclasses.fields(self)
            if getattr(options, field.name) != field.default
        }
        return dataclasses.replace(self, **changed)

    def __str__(self) -> str:
        return (
            f"Options(bytes_per_pack={self.bytes_per_pack},timeout_seconds={self.timeout_seconds}, "
            f"implementation={self.implementation})"
        )
