"""Bind Keras variables to state while code is traced."""

from muster.program.variables._by_identity import ByIdentity as ByIdentity
from muster.program.variables._keras_internals import backend_functions as backend_functions
from muster.program.variables._keras_internals import compile_arguments as compile_arguments
from muster.program.variables._keras_internals import compiled_metrics as compiled_metrics
from muster.program.variables._keras_internals import forget_state as forget_state
from muster.program.variables._keras_internals import set_values as set_values
from muster.program.variables._keras_internals import value_of as value_of
from muster.program.variables._keras_internals import values_of as values_of
from muster.program.variables._origins import VariableKind as VariableKind
from muster.program.variables._origins import is_per_replica as is_per_replica
from muster.program.variables._origins import origin_of as origin_of
from muster.program.variables._origins import variables_owned_by as variables_owned_by
from muster.program.variables._patches import patched_keras as patched_keras
from muster.program.variables._patches import wrap_in_scopes as wrap_in_scopes
from muster.program.variables._unshared_values import unshared_values as unshared_values
from muster.program.variables._variable_scope import active_scope as active_scope
from muster.program.variables._variable_scope import current_scope as current_scope
from muster.program.variables._variable_table import VariableSpec as VariableSpec
