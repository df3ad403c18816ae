"""``learn_runner.run``, and export strategies.

Source: tensorflow/contrib/learn/python/learn/learn_runner.py and utils/saved_model_export_utils.py of
TensorFlow 1.15.
"""

from collections.abc import Callable, Mapping
from typing import Any

from muster import estimator as core
from muster_tensorflow.library.contrib.learn._experiment import Experiment, run_experiment
from muster_tensorflow.library.contrib.learn._model_fn_ops import receiver_fn


def make_export_strategy(
    serving_input_fn: Callable[[], Any],
    default_output_alternative_key: str | None = None,
    assets_extra: Mapping[str, str] | None = None,
    as_text: bool = False,
    exports_to_keep: int | None = 5,
    strip_default_attrs: bool | None = None,
) -> core.Exporter:
    """Return an exporter called ``Servo``, for the ``export_strategies`` of an `Experiment`.

    Args:
        serving_input_fn: Returns what requests fill.
        default_output_alternative_key: Unused: the exported model answers its only alternative.
        assets_extra: As for ``LatestExporter``, and so those below.
        as_text: Ignored.
        exports_to_keep: How many exports to keep; None for all.
        strip_default_attrs: Ignored.
    """
    return core.LatestExporter("Servo", receiver_fn(serving_input_fn), assets_extra, as_text, exports_to_keep)


def run(
    experiment_fn: Callable[..., Experiment],
    output_dir: str | None = None,
    schedule: str | None = None,
    run_config: core.RunConfig | None = None,
    hparams: Any = None,
) -> Any:
    """Make an experiment, and do what the schedule names: see `run_experiment`.

    Args:
        experiment_fn: Called with ``output_dir``, or with ``run_config`` and ``hparams``.
        output_dir: The folder of the model, instead of a ``run_config``.
        schedule: The method to call; None for this task's part of training and evaluation.
        run_config: How to run, with a ``model_dir``.
        hparams: Passed to ``experiment_fn``.

    Raises:
        ValueError: There are both ``output_dir`` and ``run_config``, or hyperparameters with ``output_dir``.
    """
    if output_dir is None:
        return run_experiment(experiment_fn, run_config or core.RunConfig(), schedule, hparams)
    if run_config is not None:
        raise ValueError("Cannot provide both `output_dir` and `run_config`.")
    if hparams is not None:
        raise ValueError("Must set `hparams` as None for `experiment_fn` with `output_dir`.")
    config = core.RunConfig(output_dir)
    return run_experiment(lambda run_config, hparams: experiment_fn(output_dir), config, schedule)
