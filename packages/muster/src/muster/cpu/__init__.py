"""Faster lowerings of some operations for JAX on CPU, and options for its compiler.

The lowerings replace JAX's in the process, only for the CPU platform; models stay unchanged. The compiler
options are for the programs that muster compiles.
"""

from muster.cpu._attention import attention as attention
from muster.cpu._compiler_options import compiler_options as compiler_options
from muster.cpu._gelu import gelu as gelu
from muster.cpu._kernels import LEAST_NUMBERS as LEAST_NUMBERS
from muster.cpu._kernels import has_kernels as has_kernels
from muster.cpu._kernels import kernel_p as kernel_p
from muster.cpu._lowerings import exported_for_this_job as exported_for_this_job
from muster.cpu._lowerings import prepare as prepare
from muster.cpu._lowerings import replaces_loops as replaces_loops
from muster.cpu._lowerings import share_heap as share_heap
from muster.cpu._lowerings import use_cpu_lowerings as use_cpu_lowerings
from muster.cpu._memory import compute_at_once as compute_at_once
from muster.cpu._memory import keep_memory as keep_memory
from muster.cpu._normalization import batch_norm as batch_norm
from muster.cpu._normalization import layer_norm as layer_norm
from muster.cpu._normalization import moments as moments
from muster.cpu._recurrent import gru as gru
from muster.cpu._recurrent import lstm as lstm
