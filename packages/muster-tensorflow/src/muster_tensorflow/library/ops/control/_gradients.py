"""``tf.UnconnectedGradients``, and optimizers' ``minimize``."""

import enum
from typing import Any

from muster import gradients as gradients_in_step
from muster.extend import current_scope
from muster.program import GradientTape
from muster.program import minimize as minimize_in_step


class UnconnectedGradients(enum.Enum):
    """Names the gradients by values on which the target does not depend: none, or zeros.

    Source: tensorflow/python/ops/unconnected_gradients.py, ``UnconnectedGradients``.
    """

    NONE = "none"
    ZERO = "zero"


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    gate_gradients: bool = False,
    aggregation_method: None = None,
    stop_gradients: Any = None,
    unconnected_gradients: UnconnectedGradients = UnconnectedGradients.NONE,
    *,
    colocate_gradients_with_ops: bool = False,
) -> list[Any]:
    """Compute the gradients of the sum of values, in a step; zeros where there is none.

    Args:
        ys: An array, or several.
        xs: What to differentiate by: a variable or an array, or several.
        grad_ys: An array for each of ``ys``, by which it is multiplied; None is 1.
        name: Unused, as what follows is.
        gate_gradients: Unused.
        aggregation_method: Unused.
        stop_gradients: None: use ``tf.stop_gradient`` where the values are computed.
        unconnected_gradients: Unused.
        colocate_gradients_with_ops: Unused.

    Raises:
        ValueError: There are ``stop_gradients``.

    Source: tensorflow/python/ops/gradients_impl.py, ``gradients``.
    """
    if stop_gradients is not None:
        raise ValueError("tf.gradients has no stop_gradients here: use tf.stop_gradient on these values.")
    targets = ys if isinstance(ys, list | tuple) else [ys]
    if grad_ys is not None:
        factors = grad_ys if isinstance(grad_ys, list | tuple) else [grad_ys]
        pairs = zip(targets, factors, strict=True)
        targets = [y if factor is None else y * factor for y, factor in pairs]
    sources = list(xs) if isinstance(xs, list | tuple) else [xs]
    return gradients_in_step(targets, sources)


def minimize(
    self: Any, loss: Any, var_list: Any = None, tape: GradientTape | None = None, name: str | None = None
) -> Any:
    """Minimize a loss by one step of an optimizer.

    Args:
        self: The optimizer.
        loss: A function without arguments that returns it; or, with a tape or in a step, the loss.
        var_list: The variables, or a function without arguments that returns them.
        tape: The tape in whose block the loss was computed.
        name: Unused.

    Raises:
        ValueError: The loss is an array, and there is no tape; or there are no variables.

    Source: tensorflow/python/keras/optimizers, ``Optimizer.minimize``.
    """
    if not callable(loss) and tape is None:
        if current_scope() is not None:
            return minimize_in_step(self, loss, var_list=var_list)
        raise ValueError(
            "optimizer.minimize in eager code needs a function that returns the loss, as in "
            "optimizer.minimize(lambda: …, variables), or the tape in whose block it was computed."
        )
    if callable(loss):
        with GradientTape() as tape:
            loss = loss()
    variables = var_list() if callable(var_list) else var_list
    if not variables:
        raise ValueError("optimizer.minimize needs var_list, the variables to train.")
    gradients = tape.gradient(loss, variables)  # type: ignore[union-attr]
    return self.apply_gradients(zip(gradients, variables, strict=True))
