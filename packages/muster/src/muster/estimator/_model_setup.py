"""Let a model_fn set initial values, and how many checkpoints to keep, before the first step."""

from collections.abc import Container, Mapping, MutableMapping
from typing import Any

from muster._arrays import AnyArray


class ModelSetup:
    """Sets what variables start from, and how many checkpoints training keeps; this one changes nothing.

    A front end derives from it what its programs put into an `EstimatorSpec`.
    """

    @property
    def retention(self) -> tuple[int | None, float] | None:
        """The number of checkpoints to keep, and the hours between older ones; None for the config's."""
        return None

    def initialize(self, values: MutableMapping[str, Any]) -> None:
        """Change the values from which variables start, by path, where no checkpoint is restored."""

    def chosen(
        self, stored: Mapping[str, AnyArray], source: str, without: Container[str]
    ) -> Mapping[str, AnyArray]:
        """Return values that variables have in evaluation and prediction, by path, instead of their own.

        Args:
            stored: Name in a checkpoint -> value.
            source: The path of the checkpoint.
            without: The paths of variables to leave out.
        """
        return {}
