"""TensorFlow's operations on arrays, and the shapes of arrays.

Every operation accepts ``name``, as TensorFlow's does, and ignores it unless its docstring says otherwise.
"""
