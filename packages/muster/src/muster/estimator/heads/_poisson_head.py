"""A head for models that predict how often something happens."""

import jax
import jax.numpy as jnp
import numpy as np

from muster.estimator.heads._regression_head import RegressionHead
from muster.feature_column import NumericColumn


class PoissonRegressionHead(RegressionHead):
    """Predicts counts, the exponentials of the logits, and minimizes their negative Poisson likelihood.

    Labels are counts, or other numbers that are not negative.

    Args:
        label_dimension: As for `RegressionHead`.
        weight_column: As for `RegressionHead`.
        loss_reduction: As for `Head`.
        compute_full_loss: Whether the loss has Stirling's approximation of the logarithm of the label's
            factorial, which does not depend on the model.
        name: As for `Head`.

    Raises:
        TypeError: As for `RegressionHead`.
        ValueError: As for `RegressionHead`.

    Source: ``PoissonRegressionHead`` (tensorflow_estimator/python/estimator/head/regression_head.py).
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: str | NumericColumn | None = None,
        loss_reduction: str = "sum_over_batch_size",
        compute_full_loss: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(label_dimension, weight_column, loss_reduction, None, jnp.exp, name)
        self._compute_full_loss = compute_full_loss

    def losses(self, labels: jax.Array, logits: jax.Array) -> jax.Array:
        """Return the negative logarithm of the likelihood; labels and result have the shape of the logits."""
        losses = jnp.exp(logits) - labels * logits
        if not self._compute_full_loss:
            return losses
        several = jnp.maximum(labels, 1)  # the approximation is for labels above 1, and 0 for others
        factorials = several * jnp.log(several) - several + 0.5 * jnp.log(2 * np.pi * several)
        return losses + jnp.where(labels > 1, factorials, 0.0)
