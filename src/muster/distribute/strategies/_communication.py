"""How workers add their gradients: which implementation, in which packs, how long to wait."""

import dataclasses
import enum
import logging
from typing import Self

_log = logging.getLogger(__name__)


class CommunicationImplementation(enum.Enum):
    """Who carries the collectives.

    Source: tensorflow/python/distribute/collective_util.py, ``CommunicationImplementation``.
    """

    AUTO = "AUTO"  # NCCL between GPUs, else the processes themselves
    RING = "RING"  # the processes themselves
    NCCL = "NCCL"  # between GPUs


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommunicationOptions:
    """Options of collectives between workers.

    Args:
        bytes_per_pack: gradients are added in packs that are closed once they exceed this; 0 makes one pack.
        timeout_seconds: how long a worker may be silent before the others give it up; None or 0: 30. If
            given, also how long one that is there may keep the others waiting, once it trains: choose more
            than what hooks may take at one step. Evaluating and saving does not count.
        implementation: an enum value or its name in any case.

    Raises:
        ValueError: A value is out of range.
        TypeError: ``bytes_per_pack`` or ``timeout_seconds`` is not a number.

    Source: tensorflow/python/distribute/collective_util.py, ``Options``, which takes a timeout below zero.
    """

    bytes_per_pack: int = 0
    timeout_seconds: float | None = None
    implementation: CommunicationImplementation | str = CommunicationImplementation.AUTO

    def __post_init__(self) -> None:
        if self.bytes_per_pack < 0:
            raise ValueError(f"Argument `bytes_per_pack` must be >=0, Received {self.bytes_per_pack}.")
        if self.timeout_seconds is not None and self.timeout_seconds < 0:
            raise ValueError(f"Argument `timeout_seconds` must be >=0, Received {self.timeout_seconds}.")
        given = self.implementation
        if isinstance(given, str) and given.upper() in CommunicationImplementation.__members__:
            object.__setattr__(self, "implementation", CommunicationImplementation[given.upper()])
        elif not isinstance(given, CommunicationImplementation):
            raise ValueError(
                "Argument `implementation` must be instance of "
                f"`tf.distribute.experimental.CommunicationImplementation`. Received {given!r}; there are "
                f"{', '.join(CommunicationImplementation.__members__)}."
            )

    def check_platform(self, platform: str) -> None:
        """Check that what was asked for carries the collectives between devices of a platform, JAX's name.

        Raises:
            ValueError: NCCL is asked for, and these are CPUs.
        """
        if self.implementation is CommunicationImplementation.NCCL and platform == "cpu":
            raise ValueError("CommunicationImplementation.NCCL needs GPUs, and JAX has none here: use AUTO.")
        if self.implementation is CommunicationImplementation.RING and platform != "cpu":
            _log.warning(
                "CommunicationImplementation.RING is for CPUs: XLA adds its own way on %s.", platform
            )

    def merge(self, options: Self | None) -> Self:
        """These options, with those of another that are not the default ones in their place."""
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
