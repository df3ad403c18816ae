"""``tf.linalg``."""

from muster_tensorflow.library.ops.arrays._shape import eye as eye
from muster_tensorflow.library.ops.arrays._shape import matmul as matmul
from muster_tensorflow.library.ops.linalg._diagonals import diag as diag
from muster_tensorflow.library.ops.linalg._diagonals import diag_part as diag_part
from muster_tensorflow.library.ops.linalg._diagonals import set_diag as set_diag
from muster_tensorflow.library.ops.linalg._factorizations import (
    banded_triangular_solve as banded_triangular_solve,
)
from muster_tensorflow.library.ops.linalg._factorizations import eig as eig
from muster_tensorflow.library.ops.linalg._factorizations import eigh_tridiagonal as eigh_tridiagonal
from muster_tensorflow.library.ops.linalg._factorizations import eigvals as eigvals
from muster_tensorflow.library.ops.linalg._factorizations import logm as logm
from muster_tensorflow.library.ops.linalg._factorizations import lu as lu
from muster_tensorflow.library.ops.linalg._factorizations import lu_matrix_inverse as lu_matrix_inverse
from muster_tensorflow.library.ops.linalg._factorizations import lu_reconstruct as lu_reconstruct
from muster_tensorflow.library.ops.linalg._factorizations import lu_solve as lu_solve
from muster_tensorflow.library.ops.linalg._factorizations import tridiagonal_matmul as tridiagonal_matmul
from muster_tensorflow.library.ops.linalg._factorizations import tridiagonal_solve as tridiagonal_solve
from muster_tensorflow.library.ops.linalg._linalg import band_part as band_part
from muster_tensorflow.library.ops.linalg._linalg import cholesky as cholesky
from muster_tensorflow.library.ops.linalg._linalg import det as det
from muster_tensorflow.library.ops.linalg._linalg import einsum as einsum
from muster_tensorflow.library.ops.linalg._linalg import inv as inv
from muster_tensorflow.library.ops.linalg._linalg import matvec as matvec
from muster_tensorflow.library.ops.linalg._linalg import solve as solve
from muster_tensorflow.library.ops.linalg._linalg import tensordot as tensordot
from muster_tensorflow.library.ops.linalg._linalg import trace as trace
from muster_tensorflow.library.ops.linalg._linalg_solvers import adjoint as adjoint
from muster_tensorflow.library.ops.linalg._linalg_solvers import cholesky_solve as cholesky_solve
from muster_tensorflow.library.ops.linalg._linalg_solvers import cross as cross
from muster_tensorflow.library.ops.linalg._linalg_solvers import eigh as eigh
from muster_tensorflow.library.ops.linalg._linalg_solvers import eigvalsh as eigvalsh
from muster_tensorflow.library.ops.linalg._linalg_solvers import expm as expm
from muster_tensorflow.library.ops.linalg._linalg_solvers import logdet as logdet
from muster_tensorflow.library.ops.linalg._linalg_solvers import lstsq as lstsq
from muster_tensorflow.library.ops.linalg._linalg_solvers import matrix_rank as matrix_rank
from muster_tensorflow.library.ops.linalg._linalg_solvers import matrix_transpose as matrix_transpose
from muster_tensorflow.library.ops.linalg._linalg_solvers import normalize as normalize
from muster_tensorflow.library.ops.linalg._linalg_solvers import pinv as pinv
from muster_tensorflow.library.ops.linalg._linalg_solvers import qr as qr
from muster_tensorflow.library.ops.linalg._linalg_solvers import slogdet as slogdet
from muster_tensorflow.library.ops.linalg._linalg_solvers import sqrtm as sqrtm
from muster_tensorflow.library.ops.linalg._linalg_solvers import svd as svd
from muster_tensorflow.library.ops.linalg._linalg_solvers import tensor_diag as tensor_diag
from muster_tensorflow.library.ops.linalg._linalg_solvers import tensor_diag_part as tensor_diag_part
from muster_tensorflow.library.ops.linalg._linalg_solvers import triangular_solve as triangular_solve
from muster_tensorflow.library.ops.linalg._linear_operator import LinearOperator as LinearOperator
from muster_tensorflow.library.ops.linalg._linear_operator import (
    LinearOperatorAdjoint as LinearOperatorAdjoint,
)
from muster_tensorflow.library.ops.linalg._linear_operator import (
    LinearOperatorComposition as LinearOperatorComposition,
)
from muster_tensorflow.library.ops.linalg._linear_operator import (
    LinearOperatorInversion as LinearOperatorInversion,
)
from muster_tensorflow.library.ops.linalg._linear_operator import (
    LinearOperatorLowerTriangular as LinearOperatorLowerTriangular,
)
from muster_tensorflow.library.ops.linalg._linear_operators import (
    LinearOperatorBlockDiag as LinearOperatorBlockDiag,
)
from muster_tensorflow.library.ops.linalg._linear_operators import LinearOperatorDiag as LinearOperatorDiag
from muster_tensorflow.library.ops.linalg._linear_operators import (
    LinearOperatorFullMatrix as LinearOperatorFullMatrix,
)
from muster_tensorflow.library.ops.linalg._linear_operators import (
    LinearOperatorIdentity as LinearOperatorIdentity,
)
from muster_tensorflow.library.ops.linalg._linear_operators import (
    LinearOperatorKronecker as LinearOperatorKronecker,
)
from muster_tensorflow.library.ops.linalg._linear_operators import (
    LinearOperatorLowRankUpdate as LinearOperatorLowRankUpdate,
)
from muster_tensorflow.library.ops.linalg._linear_operators import (
    LinearOperatorScaledIdentity as LinearOperatorScaledIdentity,
)
from muster_tensorflow.library.ops.linalg._linear_operators import LinearOperatorZeros as LinearOperatorZeros
from muster_tensorflow.library.ops.math._math import global_norm as global_norm
from muster_tensorflow.library.ops.math._math import norm as norm
from muster_tensorflow.library.ops.nn._nn import l2_normalize as l2_normalize
