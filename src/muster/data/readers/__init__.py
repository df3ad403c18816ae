"""Datasets of files: TFRecord, CSV, Parquet, ArrayRecord, npz, text."""

from muster.data.readers._make_csv_dataset import make_csv_dataset as make_csv_dataset
from muster.data.readers._readers import ArrayRecordDataset as ArrayRecordDataset
from muster.data.readers._readers import CsvDataset as CsvDataset
from muster.data.readers._readers import NpzDataset as NpzDataset
from muster.data.readers._readers import ParquetDataset as ParquetDataset
from muster.data.readers._readers import TextLineDataset as TextLineDataset
from muster.data.readers._readers import TFRecordDataset as TFRecordDataset
