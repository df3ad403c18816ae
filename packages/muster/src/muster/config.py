"""Settings of the whole program, as tf.config has them."""

from muster._compilation_cache import use_compilation_cache as use_compilation_cache
from muster.cpu import use_cpu_lowerings as use_cpu_lowerings
from muster.program import run_functions_eagerly as run_functions_eagerly
from muster.program.trace import functions_run_eagerly as functions_run_eagerly
