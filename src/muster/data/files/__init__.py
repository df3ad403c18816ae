"""File formats: opens, decodes and indexes the files of a dataset."""
