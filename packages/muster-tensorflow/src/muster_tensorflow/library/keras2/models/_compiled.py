"""``compiled_loss`` and ``compiled_metrics`` of Keras 2's models, for a ``train_step`` of their own."""

from collections.abc import Sequence
from typing import Any

from muster.extend import ByIdentity, compiled_loss, losses_of_outputs, updated_metrics
from muster_tensorflow.library.keras2.models._steps import as_columns

_CALLED: ByIdentity[bool] = ByIdentity()
"""Models whose own steps have called ``compiled_loss``, so that ``metrics`` has the mean of the losses."""


class CompiledLoss:
    """The loss that a model was compiled with.

    TensorFlow: keras/engine/compile_utils.py, LossesContainer.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    @property
    def metrics(self) -> list[Any]:
        """The means of the loss, and of each output's where there are several."""
        return losses_of_outputs(self._model)

    def __call__(
        self,
        y_true: Any,
        y_pred: Any,
        sample_weight: Any = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> Any:
        """Return the loss of a batch, plus others, and add the sum to the mean that ``metrics`` has."""
        _CALLED[self._model] = True
        names = getattr(self._model, "output_names", None)
        y_true, sample_weight = (as_columns(each, y_pred, names) for each in (y_true, sample_weight))
        return compiled_loss(self._model, y_true, y_pred, sample_weight, regularization_losses or ())

    def reset_state(self) -> None:
        """Let the means begin anew."""
        for metric in self.metrics:
            metric.reset_state()


def has_called_loss(model: Any) -> bool:
    """Return whether an own step of a model has called ``compiled_loss``."""
    return model in _CALLED


class CompiledMetrics:
    """The metrics that a model was compiled with.

    TensorFlow: keras/engine/compile_utils.py, MetricsContainer.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    @property
    def metrics(self) -> list[Any]:
        """The metrics, once they have been updated."""
        return updated_metrics(self._model)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add a batch to the metrics."""
        self._model.compute_metrics(None, y_true, y_pred, sample_weight)

    def reset_state(self) -> None:
        """Let the metrics begin anew."""
        for metric in self.metrics:
            metric.reset_state()
