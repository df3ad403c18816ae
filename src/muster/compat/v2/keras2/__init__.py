"""Keras 2's ways on Keras' own classes: the modules that give them, all of what compat changes in Keras.

Programs get layers, models, optimizers and callbacks from Keras itself, or derive from them: so these classes
are changed, once, when `muster.compat.tensorflow` is imported. Each module says what, why, and which test
fails when a new version of Keras is otherwise.
"""

from muster._keras import keras
from muster.compat.v2.keras2 import (
    _adapt,
    _attention,
    _branches,
    _builds,
    _callbacks,
    _calls,
    _cell_masks,
    _cell_seeds,
    _cell_shapes,
    _chosen_rows,
    _column_models,
    _configs,
    _dynamic,
    _endpoints,
    _feature_space,
    _fixed_seeds,
    _folders_of_models,
    _image_nets,
    _input_shapes,
    _kernels,
    _layer_names,
    _layers,
    _loss_means,
    _losses,
    _metric_types,
    _metric_values,
    _models,
    _nested_steps,
    _optimizers,
    _own_optimizers,
    _own_variables,
    _partial_weights,
    _ragged_models,
    _results,
    _sequential,
    _several_outputs,
    _sizes,
    _slashes,
    _steps,
    _text_layers,
    _text_models,
    _unknown_sizes,
    _unseeded,
    _variable_names,
)

_PARTS = (
    _optimizers,
    _own_optimizers,
    _kernels,
    _layers,
    _callbacks,
    _endpoints,
    _layer_names,
    _builds,
    _calls,
    _cell_masks,
    _cell_seeds,
    _cell_shapes,
    _configs,
    _adapt,
    _models,
    _folders_of_models,
    _loss_means,
    _losses,
    _chosen_rows,
    _metric_types,
    _metric_values,
    _sequential,
    _sizes,
    _slashes,
    _steps,
    _feature_space,
    _text_layers,
    _text_models,
    _branches,
    _ragged_models,
    _column_models,
    _unknown_sizes,
    _unseeded,
    _input_shapes,
    _dynamic,
    _nested_steps,
    _own_variables,
    _partial_weights,
    _attention,
    _fixed_seeds,
    _several_outputs,
    _results,
    _image_nets,
    _variable_names,
)


def patch() -> None:
    """Give Keras' classes the names and the behaviour of Keras 2, once."""
    if hasattr(keras.Model, "fit_generator"):
        return
    for part in _PARTS:
        part.patch()
