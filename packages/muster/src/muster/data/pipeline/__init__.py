"""The operations of a dataset, as nodes of a pipeline."""

from muster.data.pipeline._node import Node as Node
from muster.data.pipeline._sources import ArraySource as ArraySource
from muster.data.pipeline._spec import as_leaf as as_leaf
from muster.data.pipeline._spec import object_array as object_array
