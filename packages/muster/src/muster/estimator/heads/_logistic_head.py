"""A head for models that predict shares."""

import jax

from muster.estimator.heads._binary_class_head import sigmoid_cross_entropy
from muster.estimator.heads._labels import range_factor
from muster.estimator.heads._regression_head import RegressionHead
from muster.feature_column import NumericColumn


class LogisticRegressionHead(RegressionHead):
    """Predicts a number between 0 and 1, the sigmoid of the logit, and minimizes the cross entropy.

    Args:
        weight_column: As for `RegressionHead`.
        loss_reduction: As for `Head`.
        name: As for `Head`.

    Raises:
        TypeError: As for `RegressionHead`.
        ValueError: As for `RegressionHead`.

    Source: ``LogisticRegressionHead`` (tensorflow_estimator/python/estimator/head/regression_head.py).
    """

    def __init__(
        self,
        weight_column: str | NumericColumn | None = None,
        loss_reduction: str = "sum_over_batch_size",
        name: str | None = None,
    ) -> None:
        super().__init__(1, weight_column, loss_reduction, None, jax.nn.sigmoid, name)

    def losses(self, labels: jax.Array, logits: jax.Array) -> jax.Array:
        """Return the cross entropies; labels and result have the shape of the logits.

        Raises:
            DatasetError: A label is not between 0 and 1.
        """
        factor = range_factor(labels, 2, "Labels must be in range [0, 1]")
        return sigmoid_cross_entropy(labels, logits) * factor
