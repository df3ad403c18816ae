"""Functions of TensorFlow's private modules that programs import."""

import re
import sys
import types
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from muster.estimator import RunConfig
from muster.feature_column import FeatureColumn
from muster_tensorflow.library.ops.arrays._tensor_shape import TensorShape

_DATA_FORMATS = {
    "channels_last": {3: "NWC", 4: "NHWC", 5: "NDHWC"},
    "channels_first": {3: "NCW", 4: "NCHW", 5: "NCDHW"},
}


def concat_shape(prefix: Any, suffix: Any, static: bool = False) -> Any:
    """Return the sizes of one shape and another after it.

    Args:
        prefix: A size, or several: of a shape, a list or an array; None where they are unknown.
        suffix: Likewise.
        static: Whether to return a list, with None for sizes that are unknown, rather than an array.

    Raises:
        ValueError: The sizes of an array are unknown.

    Source: tensorflow/python/ops/rnn_cell_impl.py, ``_concat``.
    """
    if prefix is None or suffix is None:
        if static:
            return None
        raise ValueError(f"Provided a prefix or suffix of None: {prefix} and {suffix}")
    sizes = [*_sizes(prefix), *_sizes(suffix)]
    if static:
        return sizes
    if None in sizes:
        raise ValueError(f"All sizes of the shape of an array are known, got {sizes}.")
    return np.asarray(sizes, np.int32) if all(isinstance(size, int) for size in sizes) else sizes


def _sizes(shape: Any) -> list[Any]:
    sizes = list(shape) if isinstance(shape, list | tuple) or np.ndim(shape) else [shape]
    return [size if size is None else int(size) if hasattr(size, "__index__") else size for size in sizes]


def is_like_rnn_cell(cell: Any) -> bool:
    """Return whether an object has what a cell of a recurrent network has.

    Source: tensorflow/python/ops/rnn_cell_impl.py of TensorFlow 1.15, ``_like_rnncell``.
    """
    return callable(cell) and all(hasattr(cell, each) for each in ("output_size", "state_size", "zero_state"))


def unknown_shape(rank: int | None = None, ndims: int | None = None) -> TensorShape | None:
    """Return a shape of unknown sizes; None, as of `TensorShape`, if not even their number is known.

    Source: tensorflow/python/framework/tensor_shape.py, ``unknown_shape``.
    """
    count = ndims if rank is None else rank
    return None if count is None else TensorShape([None] * count)


def remove_undocumented(
    module_name: str,
    allowed_exception_list: Sequence[str] | None = None,
    doc_string_modules: Sequence[ModuleType] | None = None,
) -> None:
    """Do nothing: names of a module stay, also those that its text does not mention.

    Source: tensorflow/python/util/all_util.py, ``remove_undocumented``.
    """


def make_all(module_name: str, doc_string_modules: Sequence[ModuleType] | None = None) -> list[str]:
    """Return the names of a module that a text lists, a line each, as ``@@name``; for its ``__all__``.

    Args:
        module_name: The name of the module.
        doc_string_modules: The modules whose docstrings are the text; None is the module itself.

    Source: tensorflow/python/util/all_util.py, ``make_all``.
    """
    module = sys.modules[module_name]
    modules = [module] if doc_string_modules is None else doc_string_modules
    listed = [name for each in modules for name in re.findall(r"^\s*@@(\S+)\s*$", each.__doc__ or "", re.M)]
    return [name for name in dict.fromkeys(listed) if hasattr(module, name)]


class ClusterConfig:
    """Describes the tasks of a job by the environment, as `RunConfig` does.

    Args:
        master: The address to connect to; None for what ``TF_CONFIG`` says. Without effect.
        evaluation_master: Likewise, for evaluation.

    Raises:
        ValueError: ``TF_CONFIG`` describes no job.

    Source: tensorflow/contrib/learn/python/learn/estimators/run_config.py of 1.15, ``ClusterConfig``.
    """

    def __init__(self, master: str | None = None, evaluation_master: str = "") -> None:
        """Read ``TF_CONFIG``."""
        config = RunConfig()
        self.cluster_spec = config.cluster_spec
        self.task_type, self.task_id = config.task_type, config.task_id
        self.is_chief = config.is_chief
        self.num_ps_replicas, self.num_worker_replicas = config.num_ps_replicas, config.num_worker_replicas
        self.master = config.master if master is None else master
        self.evaluation_master = evaluation_master

    @staticmethod
    def get_task_id() -> int:
        """Return the number of this task among those of its type."""
        task_id: int = RunConfig().task_id
        return task_id


def is_feature_column_v2(feature_columns: Iterable[Any]) -> bool:
    """Return whether all of some values are feature columns: there is one kind of them.

    Source: tensorflow/python/feature_column/feature_column_v2.py, ``is_feature_column_v2``.
    """
    return all(isinstance(column, FeatureColumn) for column in feature_columns)


def convert_data_format(data_format: str, ndim: int) -> str:
    """Return the order of axes of a convolution's input, such as ``"NHWC"``.

    Args:
        data_format: ``"channels_last"`` or ``"channels_first"``.
        ndim: The number of axes, 3 to 5.

    Raises:
        ValueError: It is neither, or there are other numbers of axes.

    Source: tensorflow/python/layers/utils.py, ``convert_data_format``.
    """
    try:
        return _DATA_FORMATS[data_format][ndim]
    except KeyError:
        raise ValueError(
            f"data_format is one of {', '.join(_DATA_FORMATS)}, with 3 to 5 axes, got {data_format!r} with "
            f"{ndim}."
        ) from None


def layers_deconv_output_length(
    input_length: int | None, filter_size: int, padding: str, stride: int
) -> int | None:
    """Return the size of an axis after a transposed convolution; None of None.

    Source: tensorflow/python/layers/utils.py, ``deconv_output_length``.
    """
    if input_length is None:
        return None
    more = {"valid": max(filter_size - stride, 0), "full": 2 - stride - filter_size}.get(padding, 0)
    return input_length * stride + more


TASK_TYPES = types.SimpleNamespace(MASTER="master", PS="ps", WORKER="worker")
ENVIRONMENTS = types.SimpleNamespace(CLOUD="cloud", GOOGLE="google", LOCAL="local")
