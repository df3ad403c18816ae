"""Puts this folder on the path, so that tests in its folders find `dataset_model`."""
