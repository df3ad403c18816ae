"""``tf.linalg``."""

from muster.compat.ops._linalg import band_part as band_part
from muster.compat.ops._linalg import cholesky as cholesky
from muster.compat.ops._linalg import det as det
from muster.compat.ops._linalg import diag as diag
from muster.compat.ops._linalg import diag_part as diag_part
from muster.compat.ops._linalg import einsum as einsum
from muster.compat.ops._linalg import inv as inv
from muster.compat.ops._linalg import matvec as matvec
from muster.compat.ops._linalg import solve as solve
from muster.compat.ops._linalg import tensordot as tensordot
from muster.compat.ops._linalg import trace as trace
from muster.compat.ops._math import global_norm as global_norm
from muster.compat.ops._math import norm as norm
from muster.compat.ops._nn import l2_normalize as l2_normalize
from muster.compat.ops._shape import eye as eye
from muster.compat.ops._shape import matmul as matmul
