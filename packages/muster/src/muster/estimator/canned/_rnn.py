"""Recurrent layers over columns of sequences: `RNNClassifier` and `RNNEstimator`."""

import logging
import numbers
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster._keras import keras
from muster.estimator._estimator_spec import ModeKeys
from muster.estimator._run_config import RunConfig
from muster.estimator.canned._canned_estimator import CannedEstimator, Part, classifier_head
from muster.estimator.canned._optimizer_makers import OptimizerLike, optimizer_maker
from muster.estimator.heads._head import Head
from muster.estimator.heads._sequential_head import SequentialHeadWrapper
from muster.feature_column import (
    DenseColumn,
    Features,
    NumericColumn,
    SequenceDenseColumn,
    SequenceFeatures,
    dense_features,
    sorted_columns,
    step_mask,
)

_LEARNING_RATE = 0.05
_CLIPNORM = 5.0

_LAYERS = {"simple_rnn": keras.layers.SimpleRNN, "lstm": keras.layers.LSTM, "gru": keras.layers.GRU}
_CELLS = {
    "simple_rnn": keras.layers.SimpleRNNCell,
    "lstm": keras.layers.LSTMCell,
    "gru": keras.layers.GRUCell,
}

Units = int | Iterable[int] | None
"""The units of one recurrent layer, or of each of several."""
CellType = str | Callable[..., Any] | None
"""``"simple_rnn"``, ``"lstm"``, ``"gru"``, or a function of ``units``; None for the first."""
CellFn = Callable[[], Any] | None
"""Returns a cell, or a list of cells."""
SequenceColumns = Iterable[SequenceDenseColumn] | SequenceDenseColumn
"""One column of sequences, or several in any order."""


class RNNLogits:
    """Recurrent layers over columns, and a dense layer that computes logits of their last or of all outputs.

    The variables are named as the layers: ``rnn_model/rnn/simple_rnn_cell/kernel`` and the like,
    ``rnn_model/logits/kernel`` and ``bias``; embeddings ``sequence_features/<column>/embedding_weights``, and
    those of the context ``dense_features/<column>/embedding_weights``.

    Args:
        sequence_feature_columns: The columns of sequences.
        context_feature_columns: Columns of whole examples, whose values each step reads; None for none.
        units: As for `RNNEstimator`, and so the following.
        cell_type: The kind of the recurrent layers.
        rnn_cell_fn: Returns the recurrent cells.
        return_sequences: Whether to return logits of all steps.

    Raises:
        ValueError: The columns cannot make a model, or the arguments none of the layers.

    Source: ``RNNModel`` (tensorflow_estimator/python/estimator/canned/rnn.py).
    """

    def __init__(
        self,
        sequence_feature_columns: SequenceColumns,
        context_feature_columns: Iterable[DenseColumn] | DenseColumn | None,
        units: Units,
        cell_type: CellType,
        rnn_cell_fn: CellFn,
        return_sequences: bool,
    ) -> None:
        self._of_sequences = sorted_columns(sequence_feature_columns, wanted=(SequenceDenseColumn,))
        self._of_context = sorted_columns(context_feature_columns) if context_feature_columns else ()
        self._return_sequences = return_sequences
        self._new_layer = _layer_maker(units, cell_type, rnn_cell_fn, return_sequences)

    @property
    def columns(self) -> tuple[SequenceDenseColumn | DenseColumn, ...]:
        """The columns that the model reads."""
        return (*self._of_sequences, *self._of_context)

    def __call__(self, features: Features, units: int, mode: ModeKeys) -> jax.Array:
        """Return the logits: float32 of shape (batch, units), or (batch, steps, units) of all steps."""
        values, lengths = SequenceFeatures(self._of_sequences, name="sequence_features")(features)
        if not values.shape[1]:  # there must be a step to leave out
            values = jnp.zeros((values.shape[0], 1, values.shape[2]), values.dtype)
        steps = values.shape[1]
        if self._of_context:
            with keras.name_scope("dense_features"):
                context = dense_features(features, self._of_context)
            context = jnp.broadcast_to(context[:, None], (context.shape[0], steps, context.shape[1]))
            values = jnp.concatenate([values, context], axis=-1)
        with keras.name_scope("rnn_model"):
            outputs = self._new_layer()(
                values, mask=step_mask(lengths, steps), training=mode == ModeKeys.TRAIN
            )
            logits: jax.Array = keras.layers.Dense(units, name="logits")(outputs)
        return logits

    def masked(self, key: str) -> Callable[[Features], Features]:
        """Return what adds, below a key, which steps sequences have: bool of shape (batch, steps).

        Features that have the key already stay as they are.
        """

        def add(features: Features) -> Features:
            if key in features:
                return features
            return {**features, key: self._of_sequences[0].sequence_mask(features)}

        return add


def rnn_part(
    logits: RNNLogits, optimizer: OptimizerLike, for_head: Callable[[Features], Features] | None
) -> Part:
    """Return recurrent layers as a part of a canned model.

    An optimizer by name has the learning rate 0.05, and clips each variable's gradient to the norm 5.

    Raises:
        ValueError: There is no such optimizer.
    """
    maker = optimizer_maker(optimizer, _LEARNING_RATE, _CLIPNORM)
    return Part(logits, maker) if for_head is None else Part(logits, maker, for_head)


def _layer_maker(
    units: Units, cell_type: CellType, rnn_cell_fn: CellFn, return_sequences: bool
) -> Callable[[], Any]:
    """Return a function that makes a new recurrent layer: each trace of a model_fn must build its own.

    Raises:
        ValueError: The arguments exclude each other, or one is missing or wrong.

    Source: ``_make_rnn_layer`` (tensorflow_estimator/python/estimator/canned/rnn.py).
    """
    if rnn_cell_fn is not None:
        if units or cell_type is not None:
            raise ValueError("units and cell_type must not be specified when using rnn_cell_fn")
        return lambda: keras.layers.RNN(_checked_cells(rnn_cell_fn()), return_sequences=return_sequences)
    kind = "simple_rnn" if cell_type is None else cell_type
    if isinstance(kind, str) and kind not in _CELLS or not isinstance(kind, str) and not callable(kind):
        raise ValueError(
            "`cell_type` should be a class producing a RNN cell, or a string specifying the cell type. "
            f"Supported strings are: {[*_CELLS]}. Given: {cell_type!r}"
        )
    sizes = _checked_units(units)
    if isinstance(units, numbers.Integral) and cell_type in _LAYERS:
        return lambda: _LAYERS[cell_type](sizes[0], return_sequences=return_sequences)
    new_cell = _CELLS[kind] if isinstance(kind, str) else kind

    def layer() -> Any:
        cells = [new_cell(units=size) for size in sizes]
        cells = _checked_cells(cells if len(cells) > 1 else cells[0])
        return keras.layers.RNN(cells, return_sequences=return_sequences)

    return layer


def _checked_units(units: Units) -> tuple[int, ...]:
    sizes: Sequence[Any] = tuple(units) if isinstance(units, Iterable) else (units,)
    if not sizes or not all(isinstance(size, numbers.Integral) and int(size) > 0 for size in sizes):
        raise ValueError(
            f"units must be a positive integer, or one for each recurrent layer. Given: {units!r}. Or give "
            "rnn_cell_fn."
        )
    return tuple(map(int, sizes))


def _checked_cells(cells: Any) -> Any:
    """Return a cell, or the cells of several layers.

    Raises:
        ValueError: One is no cell.
    """
    for cell in cells if isinstance(cells, list | tuple) else (cells,):
        if not (hasattr(cell, "call") and hasattr(cell, "state_size")):
            raise ValueError(f"RNN cell should have a `call` and `state_size` method. Given: {cell!r}")
    return cells


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
