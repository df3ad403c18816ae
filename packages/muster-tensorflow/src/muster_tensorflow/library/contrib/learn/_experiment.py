"""``tf.contrib.learn.Experiment`` with metrics, ``learn_runner.run`` with a folder, and export strategies.

Source: tensorflow/contrib/learn/python/learn/experiment.py, learn_runner.py and
utils/saved_model_export_utils.py of TensorFlow 1.15.
"""

from collections.abc import Callable, Mapping
from typing import Any

from muster import estimator as core
from muster_tensorflow.library.contrib.learn._estimator import Estimator
from muster_tensorflow.library.contrib.learn._model_fn_ops import receiver_fn


class Experiment(core.Experiment):
    """Holds an Estimator, its input and its hooks: see ``muster.estimator.Experiment``.

    Args:
        estimator: A ``tf.contrib.learn.Estimator`` or a ``tf.estimator.Estimator``.
        train_input_fn: The input of training.
        eval_input_fn: The input of evaluations.
        eval_metrics: More metrics of evaluations, by name, of a ``tf.contrib.learn.Estimator``.
        *args: As for ``muster.estimator.Experiment``.
        **kwargs: Likewise.

    Raises:
        ValueError: Another Estimator is to have ``eval_metrics``.
    """

    def __init__(
        self,
        estimator: Estimator | core.Estimator,
        train_input_fn: Callable[..., Any],
        eval_input_fn: Callable[..., Any],
        eval_metrics: Mapping[Any, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if isinstance(estimator, Estimator):
            estimator = estimator.core_estimator(eval_metrics)
        elif eval_metrics is not None:
            raise ValueError(
                "`eval_metrics` must be `None` with `tf.estimator.Estimator`. Use `eval_metric_ops` in "
                "`EstimatorSpec` instead."
            )
        super().__init__(estimator, train_input_fn, eval_input_fn, *args, **kwargs)


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
    experiment_fn: Callable[..., core.Experiment],
    output_dir: str | None = None,
    schedule: str | None = None,
    run_config: core.RunConfig | None = None,
    hparams: Any = None,
) -> Any:
    """Make an experiment, and do what the schedule names: see ``muster.estimator.run_experiment``.

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
        return core.run_experiment(experiment_fn, run_config or core.RunConfig(), schedule, hparams)
    if run_config is not None:
        raise ValueError("Cannot provide both `output_dir` and `run_config`.")
    if hparams is not None:
        raise ValueError("Must set `hparams` as None for `experiment_fn` with `output_dir`.")
    config = core.RunConfig(output_dir)
    return core.run_experiment(lambda run_config, hparams: experiment_fn(output_dir), config, schedule)
