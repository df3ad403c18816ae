"""Canned models of recurrent layers: `RNNClassifier` and `RNNEstimator`."""

import logging
import os
from collections.abc import Iterable, Sequence

from muster.estimator._run_config import RunConfig
from muster.estimator.canned._canned_estimator import CannedEstimator
from muster.estimator.canned._heads import classifier_head
from muster.estimator.canned._optimizer_makers import OptimizerLike
from muster.estimator.canned._rnn_model import (
    CellFn,
    CellType,
    RNNLogits,
    SequenceColumns,
    Units,
    rnn_part,
)
from muster.estimator.heads._head import Head
from muster.estimator.heads._sequential_head import SequentialHeadWrapper
from muster.feature_column import DenseColumn, NumericColumn

_log = logging.getLogger(__name__)


class RNNEstimator(CannedEstimator):
    """An `Estimator` whose logits are those of recurrent layers over sequences.

    Sequences are features such as `muster.data.SparseTensor` and `RaggedTensor`, or padded arrays, of shape
    (batch, steps).

    Args:
        head: Turns logits into predictions, loss and metrics.
        sequence_feature_columns: The sequences that the model reads: ``sequence_numeric_column``, or
            embedding and indicator columns of ``sequence_categorical_column_with_...``.
        context_feature_columns: Features of whole examples, as dense columns, which each step reads; None for
            none.
        units: The units of each recurrent layer, from the input on; or an integer for a layer of Keras' own
            of ``cell_type``, whose variables have its name.
        cell_type: ``"simple_rnn"``, ``"lstm"`` or ``"gru"``, or a function that takes ``units`` and returns a
            cell of Keras'; None for ``"simple_rnn"``.
        rnn_cell_fn: Returns a cell, or a list of cells, in place of ``units`` and ``cell_type``.
        return_sequences: Whether each step has logits rather than the last one. Then the head must be a
            `SequentialHeadWrapper`.
        model_dir: As for `Estimator`.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, with the learning rate
            0.05, which clips the gradient of each variable to the norm 5; a Keras optimizer, which is copied
            from its configuration; or a function without arguments that returns a new one.
        config: As for `Estimator`.

    Raises:
        ValueError: The columns cannot make a model, the head is none for sequences, or another argument is
            none of the above.

    Source: ``RNNEstimator`` (tensorflow_estimator/python/estimator/canned/rnn.py).
    """

    def __init__(
        self,
        head: Head,
        sequence_feature_columns: SequenceColumns,
        context_feature_columns: Iterable[DenseColumn] | DenseColumn | None = None,
        units: Units = None,
        cell_type: CellType = None,
        rnn_cell_fn: CellFn = None,
        return_sequences: bool = False,
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: OptimizerLike = "Adagrad",
        config: RunConfig | None = None,
    ) -> None:
        if return_sequences and not isinstance(head, SequentialHeadWrapper):
            raise ValueError(
                "Provided head must be a `_SequentialHead` object when `return_sequences` is set to True. "
                "Wrap it: SequentialHeadWrapper(head)."
            )
        logits = RNNLogits(
            sequence_feature_columns,
            context_feature_columns,
            units,
            cell_type,
            rnn_cell_fn,
            return_sequences,
        )
        masked = None
        if isinstance(head, SequentialHeadWrapper):
            masked = logits.masked(head.input_sequence_mask_key)
        super().__init__(head, [rnn_part(logits, optimizer, masked)], model_dir, config)


class RNNClassifier(RNNEstimator):
    """An `Estimator` that predicts classes of sequences, or of each of their steps.

    Args:
        sequence_feature_columns: As for `RNNEstimator`, and so the following.
        context_feature_columns: Features of whole examples, which each step reads.
        units: The units of each recurrent layer.
        cell_type: The kind of the recurrent layers.
        rnn_cell_fn: Returns the recurrent cells.
        return_sequences: Whether each step has a class. Labels have the shape (batch, steps), or are sparse,
            and so do weights. Losses and metrics leave out steps beyond a sequence's end.
        model_dir: As for `Estimator`.
        n_classes: As for `LinearClassifier`, and so the following.
        weight_column: The key or numeric column of the weights of examples, or the key of those of steps.
        label_vocabulary: The names of the classes, if labels are text; empty text is the label of no step.
        optimizer: As for `RNNEstimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        sequence_mask: With ``return_sequences``, the key of the steps that there are, of shape (batch,
            steps), among the features and the predictions; if it is no feature, the columns say.
        config: As for `Estimator`.

    Raises:
        TypeError: The weight column is neither text nor a numeric column, or a key of steps is not text.
        ValueError: The columns cannot make a model, or another argument is out of range.

    Source: ``RNNClassifier`` (tensorflow_estimator/python/estimator/canned/rnn.py).
    """

    def __init__(
        self,
        sequence_feature_columns: SequenceColumns,
        context_feature_columns: Iterable[DenseColumn] | DenseColumn | None = None,
        units: Units = None,
        cell_type: CellType = None,
        rnn_cell_fn: CellFn = None,
        return_sequences: bool = False,
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | NumericColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerLike = "Adagrad",
        loss_reduction: str = "sum_over_batch_size",
        sequence_mask: str = "sequence_mask",
        config: RunConfig | None = None,
    ) -> None:
        head = classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        if return_sequences:
            _log.info(
                "Converting head to sequential head with `SequentialHeadWrapper` to allow sequential "
                "predictions."
            )
            weights = () if weight_column is None else (weight_column,)
            head = SequentialHeadWrapper(head, sequence_mask, weights)  # type: ignore[arg-type]  # it checks
        super().__init__(
            head,
            sequence_feature_columns,
            context_feature_columns,
            units,
            cell_type,
            rnn_cell_fn,
            return_sequences,
            model_dir,
            optimizer,
            config,
        )
