"""The operations of a dataset, as nodes of a pipeline."""

from muster.data.pipeline._node import Node as Node
from muster.data.pipeline._sources import ArraySource as ArraySource
