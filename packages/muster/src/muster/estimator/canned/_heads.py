"""The heads of canned classifiers."""

from collections.abc import Sequence

from muster.estimator.heads._binary_class_head import BinaryClassHead
from muster.estimator.heads._head import Head
from muster.estimator.heads._multi_class_head import MultiClassHead
from muster.feature_column import NumericColumn


def classifier_head(
    n_classes: int,
    weight_column: str | NumericColumn | None,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: str,
) -> Head:
    """Return the head of a classifier: one logit for two classes, and one for each class of several.

    Raises:
        ValueError: As for the heads.

    Source: ``binary_or_multi_class_head`` (tensorflow_estimator/python/estimator/head/head_utils.py).
    """
    if n_classes == 2:
        return BinaryClassHead(weight_column, None, label_vocabulary, loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)
