"""`BestExporter`: exports the model whenever it is better than before."""

import glob
import logging
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from muster.estimator._model_fn import argument_names
from muster.estimator.exporters._exporter import ModelExporter, has_models
from muster.summary import read_event_file

_log = logging.getLogger(__name__)

CompareFn: TypeAlias = Callable[..., bool]
"""Takes ``best_eval_result`` and ``current_eval_result``; returns whether the current one is better."""

_LOSS = "loss"
_STEP = "global_step"


def loss_smaller(
    best_eval_result: Mapping[str, Any] | None, current_eval_result: Mapping[str, Any] | None
) -> bool:
    """Return whether the current loss is smaller; any number is smaller than NaN.

    Raises:
        ValueError: A result is empty or has no loss.

    Source: ``_loss_smaller`` (tensorflow_estimator/python/estimator/exporter.py), in which nothing is smaller
    than NaN.
    """
    best, current = _loss("best", best_eval_result), _loss("current", current_eval_result)
    return current < best or (math.isnan(best) and not math.isnan(current))


def _loss(which: str, result: Mapping[str, Any] | None) -> Any:
    if not result or _LOSS not in result:
        raise ValueError(f"{which}_eval_result cannot be empty or no loss is found in it. Given: {result}")
    return result[_LOSS]


class BestExporter(ModelExporter):
    """Exports the model whenever its evaluation is better than all before, and keeps the last ones.

    After a restart the best result is read from the evaluation's event files, as long as a model is there.

    Source: ``tf.estimator.BestExporter`` (tensorflow_estimator/python/estimator/exporter.py). Departs in that
    a restart does not export a model that is worse than the one exported before, and an export that fails
    does not count.

    Example:
        ```python
        spec = {"x": muster.data.TensorSpec([None], np.float32)}
        receiver_fn = muster.estimator.build_raw_serving_input_receiver_fn(spec)
        exporter = muster.estimator.BestExporter("best", receiver_fn, exports_to_keep=2)
        evaluation = muster.estimator.EvalSpec(lambda: ({"x": np.ones(8)}, np.ones(8)), exporters=exporter)
        ```
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Callable[[], Any] | None = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        compare_fn: CompareFn = loss_smaller,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        """Set what to export, and when.

        Args:
            name: The directory in ``<model_dir>/export``.
            serving_input_receiver_fn: Returns the features of a request, as for
                ``Estimator.export_saved_model``.
            event_file_pattern: The event files of the evaluation, below the model directory; for an
                ``EvalSpec`` with a name, ``eval_<name>/*.tfevents.*``. None forgets at a restart.
            compare_fn: Called with ``best_eval_result`` and ``current_eval_result``, metrics by name; returns
                whether the current one is better. The loss must be smaller by default.
            assets_extra: Path in the model's folder -> a file to copy there.
            as_text: Whether to write the description of the model as text.
            exports_to_keep: How many models to keep; None for all.

        Raises:
            TypeError: ``compare_fn`` is no function, or ``exports_to_keep`` is not a number.
            ValueError: ``compare_fn`` takes other arguments, or ``exports_to_keep`` is not a positive
                integer.
        """
        _check_compare_fn(compare_fn)
        super().__init__(
            name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep, "a positive number"
        )
        self._event_file_pattern = event_file_pattern
        self._compare_fn = compare_fn
        self._model_dir: str | None = None
        self._best: Mapping[str, Any] | None = None

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Export the model if it is better than before.

        Raises:
            ValueError: The result lacks what ``compare_fn`` compares.
        """
        if self._model_dir != estimator.model_dir:
            self._model_dir = estimator.model_dir
            self._best = self._earlier_best(estimator.model_dir, export_path, eval_result.get(_STEP))
        best = self._best
        # The first is compared with itself: a result without the metric must not become the best.
        if not self._is_better(eval_result if best is None else best, eval_result) and best is not None:
            return None
        _log.info("Performing best model export.")
        written = self.write(estimator, export_path, checkpoint_path)
        self._best = dict(eval_result)
        return written

    def _is_better(self, best: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
        return bool(self._compare_fn(best_eval_result=best, current_eval_result=current))

    def _earlier_best(
        self, model_dir: str, export_path: str, current_step: int | None
    ) -> Mapping[str, Any] | None:
        """Return the best result of earlier evaluations; None if they left no model, or none is known.

        Args:
            model_dir: Where the event files are.
            export_path: Where the models are.
            current_step: The step just evaluated, which is in the event files, but not exported.
        """
        if self._event_file_pattern is None:
            return None
        _log.info("Loading best metric from event files.")
        if not has_models(export_path):
            return None
        best: Mapping[str, Any] | None = None
        pattern = os.path.join(glob.escape(model_dir), self._event_file_pattern)
        for path in sorted(glob.glob(pattern)):
            for event in read_event_file(path):
                result: dict[str, Any] = {
                    each.tag: each.value for each in event if isinstance(each.value, float)
                }
                if not result or event[0].step == current_step:
                    continue
                result[_STEP] = event[0].step
                if best is None or self._is_better(best, result):
                    best = result
        return best


def _check_compare_fn(compare_fn: CompareFn | None) -> None:
    """Check which arguments a ``compare_fn`` takes."""
    if compare_fn is None:
        raise ValueError("`compare_fn` must not be None.")
    if not callable(compare_fn):
        raise TypeError(f"`compare_fn` must be a function: unsupported callable {compare_fn!r}.")
    names = argument_names(compare_fn)
    wanted = ("best_eval_result", "current_eval_result")
    for name in wanted:
        if name not in names:
            raise ValueError(f"compare_fn ({compare_fn}) must include {name} argument.")
    if unknown := [name for name in names if name not in wanted]:
        raise ValueError(f"compare_fn ({compare_fn}) has following not expected args: {unknown}")
