"""The parts of TensorFlow that Estimator and distributed programs use: TensorFlow 1's and 2's.

``v1`` has sessions, variables by name and version 1 of the Estimators; ``v2`` functions, checkpoints, modules
and variables.
"""
