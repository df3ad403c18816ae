"""``tf.types``: types for annotations."""

from muster.extend import ConcreteFunction as _ConcreteFunction
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v2._function import Function as _Function
from muster_tensorflow.programs.v2._types import SupportsTracingProtocol as _SupportsTracingProtocol
from muster_tensorflow.programs.v2._types import TensorLike as _TensorLike
from muster_tensorflow.programs.v2._types import TraceType as _TraceType

experimental = _Names(
    "tf.types.experimental",
    ConcreteFunction=_ConcreteFunction,
    GenericFunction=_Function,
    PolymorphicFunction=_Function,
    SupportsTracingProtocol=_SupportsTracingProtocol,
    TensorLike=_TensorLike,
    TraceType=_TraceType,
)
