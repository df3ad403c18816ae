"""Lowerings for JAX on CPU: the same operations, computed the way that is fast there.

They replace JAX's own for the CPU platform alone and for the whole process, under every model, unchanged.
The compiler's options go with them, for the programs that muster compiles.
"""

from muster.cpu._compiler_options import compiler_options as compiler_options
from muster.cpu._lowerings import prepare as prepare
from muster.cpu._lowerings import use_cpu_lowerings as use_cpu_lowerings
from muster.cpu._memory import keep_memory as keep_memory
