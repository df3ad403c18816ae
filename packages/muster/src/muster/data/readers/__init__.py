"""Datasets of files: TFRecord, CSV, Parquet, ArrayRecord, npz, text."""
