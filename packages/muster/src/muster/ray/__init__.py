"""Ray Train: workers in step as one of its trainers, with its reports and checkpoints. Imports Ray late."""

from muster.ray._trainer import MusterTrainer as MusterTrainer
from muster.ray._trainer import ReportCallback as ReportCallback
