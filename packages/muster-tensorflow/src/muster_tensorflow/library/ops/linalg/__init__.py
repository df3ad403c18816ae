"""Linear algebra: solvers, decompositions, linear operators."""
