"""Keras 2's behaviour on Keras 3's classes: everything that the names change in Keras.

Programs get layers, models, optimizers and callbacks from Keras itself, or derive from them: so these classes
are changed, once, when `muster_tensorflow` is imported. Each module says what and why; the manifest of
`muster_tensorflow.patches` names them all, in order, with the test that fails when a new version of Keras is
otherwise.
"""
