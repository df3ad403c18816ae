"""Operations, layers and modules of TensorFlow beyond training, for the programs that use them.

Strings, ragged and sparse tensors, signals, images and Keras 2's ways are here. The room grows no further:
nothing is added unless a program of Estimators or of distribution needs it.
"""
