"""Operations with TensorFlow 1's names and arguments."""
