"""The parts of TensorFlow that programs of Estimators and of distribution are written with.

``v1`` has sessions, variables by name and version 1 of the Estimators; ``v2`` functions, checkpoints, modules
and variables.
"""
