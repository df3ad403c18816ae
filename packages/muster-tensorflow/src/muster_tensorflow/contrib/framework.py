"""``tf.contrib.framework``."""

from muster_tensorflow import nest as _nest
from muster_tensorflow.library.contrib.arg_scopes import add_arg_scope as add_arg_scope
from muster_tensorflow.library.contrib.arg_scopes import arg_scope as arg_scope
from muster_tensorflow.library.contrib.slim_variables import (
    assign_from_checkpoint_fn as assign_from_checkpoint_fn,
)
from muster_tensorflow.library.contrib.slim_variables import get_model_variables as get_model_variables
from muster_tensorflow.library.contrib.slim_variables import get_variables as get_variables
from muster_tensorflow.library.contrib.slim_variables import get_variables_by_name as get_variables_by_name
from muster_tensorflow.library.contrib.slim_variables import (
    get_variables_by_suffix as get_variables_by_suffix,
)
from muster_tensorflow.library.contrib.slim_variables import (
    get_variables_to_restore as get_variables_to_restore,
)
from muster_tensorflow.library.ops.arrays._select import argsort as argsort
from muster_tensorflow.library.ops.arrays._select import sort as sort
from muster_tensorflow.library.ops.arrays._tensor import is_tensor as is_tensor
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v1._step import get_global_step as get_global_step
from muster_tensorflow.programs.v1._step import get_local_variable as get_local_variable
from muster_tensorflow.programs.v1._step import get_local_variable as local_variable
from muster_tensorflow.programs.v1._step import get_or_create_global_step as create_global_step
from muster_tensorflow.programs.v1._step import get_or_create_global_step as get_or_create_global_step
from muster_tensorflow.programs.v1._step import trainable_variables as get_trainable_variables
from muster_tensorflow.programs.v1.variables._init_from_checkpoint import (
    init_from_checkpoint as init_from_checkpoint,
)
from muster_tensorflow.programs.v1.variables._variables import get_variable as model_variable
from muster_tensorflow.programs.v1.variables._variables import get_variable as variable
from muster_tensorflow.programs.v2.checkpoints._checkpoint_reader import list_variables as list_variables
from muster_tensorflow.programs.v2.checkpoints._checkpoint_reader import load_checkpoint as load_checkpoint
from muster_tensorflow.programs.v2.checkpoints._checkpoint_reader import load_variable as load_variable

nest = _Names(
    "tf.contrib.framework.nest",
    assert_same_structure=_nest.assert_same_structure,
    flatten=_nest.flatten,
    is_nested=_nest.is_nested,
    map_structure=_nest.map_structure,
    pack_sequence_as=_nest.pack_sequence_as,
)
