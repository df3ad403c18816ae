"""``tf.contrib.learn``."""

from collections.abc import Callable as _Callable
from typing import Any as _Any

from muster.compat._names import Names as _Names
from muster.compat.v1._documents import ByteProcessor as _ByteProcessor
from muster.compat.v1._documents import VocabularyProcessor as _VocabularyProcessor
from muster.compat.v1._documents import tokenizer as _tokenizer
from muster.compat.v1.mnist_input import read_data_sets as _read_data_sets
from muster.estimator import Experiment as Experiment
from muster.estimator import ModeKeys as _ModeKeys
from muster.estimator import RunConfig as RunConfig
from muster.estimator import run_experiment as _run_experiment


def _run(
    experiment_fn: _Callable[[RunConfig, _Any], Experiment],
    output_dir: None = None,
    schedule: str | None = None,
    run_config: RunConfig | None = None,
    hparams: _Any = None,
) -> _Any:
    """Do as `muster.estimator.run_experiment`.

    Raises:
        ValueError: ``output_dir`` is given.
    """
    if output_dir is not None:
        raise ValueError(
            f"Cannot provide both `output_dir` and `run_config`, got output_dir={output_dir!r}. Give "
            "RunConfig(model_dir=...) and an experiment_fn with the parameters run_config and hparams."
        )
    return _run_experiment(experiment_fn, run_config or RunConfig(), schedule, hparams)


ModeKeys = _Names(
    "tf.contrib.learn.ModeKeys", EVAL=_ModeKeys.EVAL, INFER=_ModeKeys.PREDICT, TRAIN=_ModeKeys.TRAIN
)
learn_runner = _Names("tf.contrib.learn.learn_runner", run=_run)
datasets = _Names(
    "tf.contrib.learn.datasets",
    mnist=_Names("tf.contrib.learn.datasets.mnist", read_data_sets=_read_data_sets),
)
preprocessing = _Names(
    "tf.contrib.learn.preprocessing",
    ByteProcessor=_ByteProcessor,
    VocabularyProcessor=_VocabularyProcessor,
    tokenizer=_tokenizer,
)
