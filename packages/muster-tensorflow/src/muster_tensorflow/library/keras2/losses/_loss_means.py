"""Omit the ``loss`` metric of models that are compiled without a loss and define their own steps.

Keras 2 makes the mean when ``compiled_loss`` is called. Keras 3 has it from the start, so that a step which
returns ``{m.name: m.result() for m in self.metrics}`` would say ``loss: 0``, and ``evaluate`` return a list
where Keras 2 returns the only number.

Source: keras/src/engine/compile_utils.py of Keras 2.15, ``LossesContainer.metrics``.
"""

from typing import Any

from muster import keras
from muster.extend import compile_arguments, losses_of_outputs, takes_own_step
from muster_tensorflow.library.keras2.models._compiled import has_called_loss
from muster_tensorflow.patches import wrap


def _without_unused(original: Any) -> property:
    """Wrap ``Model.metrics``."""

    def metrics(self: Any) -> list[Any]:
        found: list[Any] = original.fget(self)
        if not _lacks_mean(self):
            return found
        unused = {id(each) for each in losses_of_outputs(self)}
        return [each for each in found if id(each) not in unused]

    return property(metrics, doc=original.__doc__)


def _lacks_mean(model: Any) -> bool:
    own = type(model).train_step is not keras.Model.train_step
    compiled = own and model.compiled and compile_arguments(model)["loss"] is None
    return compiled and not has_called_loss(model) and takes_own_step(model)


def patch() -> None:
    """Let models have the metrics of Keras 2."""
    owner = next(each for each in keras.Model.__mro__ if "metrics" in vars(each))
    wrap(owner, "metrics", _without_unused)
