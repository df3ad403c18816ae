"""Convert other libraries' data to arrays and batches; recognized by its attributes, without imports."""
