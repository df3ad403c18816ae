"""``tf.contrib.gan.estimator``.

Source: tensorflow/contrib/gan/python/estimator/python/gan_estimator_impl.py, ``GANEstimator``.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from muster.estimator import Estimator, EstimatorSpec, ModeKeys
from muster_tensorflow.library.contrib.gan._summaries import SummaryType
from muster_tensorflow.library.contrib.gan._summaries import add_summaries as write_summaries
from muster_tensorflow.library.contrib.gan._train import (
    GANModel,
    GANTrainOps,
    RunTrainOpsHook,
    gan_model,
    get_sequential_train_hooks,
)
from muster_tensorflow.library.contrib.training import create_train_op
from muster_tensorflow.programs.v1 import metrics
from muster_tensorflow.programs.v1._step import get_or_create_global_step
from muster_tensorflow.programs.v1.variables._variables import variable_scope

_Function = Callable[..., Any]


class GANEstimator(Estimator):
    """An Estimator of a generator and a discriminator: features are the generator's inputs, labels real data.

    A step of the training is one of the generator and then one of the discriminator, on data that is
    generated anew; both have the step's batch, where TensorFlow's read one each.

    Args:
        model_dir: The folder of checkpoints and summaries.
        generator_fn: Takes features, and the mode by the name ``mode``; returns generated data.
        discriminator_fn: Takes data and features, and the mode likewise; returns what the losses take.
        generator_loss_fn: One of ``tf.contrib.gan.losses``: takes a `GANModel` and ``add_summaries``.
        discriminator_loss_fn: Likewise.
        generator_optimizer: An optimizer of ``tf.train``, or a function that makes it in the model_fn.
        discriminator_optimizer: Likewise.
        get_hooks_fn: Takes a `GANTrainOps`, and returns hooks: each `RunTrainOpsHook` says which steps are
            taken next in a training step; others are hooks of the training. None takes one step of each.
        get_eval_metric_ops_fn: Takes the `GANModel`; returns more metrics by name.
        add_summaries: What to write of the model, by `SummaryType`; several in a list.
        use_loss_summaries: Whether the losses write summaries.
        config: The `RunConfig`.
        warm_start_from: As of `Estimator`.
        is_chief: Unused.

    Raises:
        ValueError: A loss is no function, or `use_loss_summaries` is neither a bool nor None.
        TypeError: `add_summaries` has no `SummaryType`.
    """

    def __init__(
        self,
        model_dir: Any = None,
        generator_fn: _Function | None = None,
        discriminator_fn: _Function | None = None,
        generator_loss_fn: _Function | None = None,
        discriminator_loss_fn: _Function | None = None,
        generator_optimizer: Any = None,
        discriminator_optimizer: Any = None,
        get_hooks_fn: _Function | None = None,
        get_eval_metric_ops_fn: _Function | None = None,
        add_summaries: SummaryType | Sequence[SummaryType] | None = None,
        use_loss_summaries: bool | None = True,
        config: Any = None,
        warm_start_from: Any = None,
        is_chief: bool = True,
    ) -> None:
        for name, value in {
            "generator_fn": generator_fn,
            "discriminator_fn": discriminator_fn,
            "generator_loss_fn": generator_loss_fn,
            "discriminator_loss_fn": discriminator_loss_fn,
        }.items():
            if not callable(value):
                raise ValueError(f"{name} must be callable.")
        if use_loss_summaries not in (True, False, None):
            raise ValueError("use_loss_summaries must be True, False or None.")
        kinds = [] if add_summaries is None else add_summaries
        self._summaries = [kinds] if isinstance(kinds, SummaryType) else list(kinds)
        if not all(isinstance(kind, SummaryType) for kind in self._summaries):
            raise TypeError(
                f"add_summaries must be one of tf.contrib.gan.estimator.SummaryType, or a list of them, "
                f"received: {add_summaries!r}."
            )
        self._networks: Any = (generator_fn, discriminator_fn)
        self._losses: Any = (generator_loss_fn, discriminator_loss_fn)
        self._optimizers: Any = (generator_optimizer, discriminator_optimizer)
        self._get_hooks: _Function = get_sequential_train_hooks() if get_hooks_fn is None else get_hooks_fn
        self._metrics = get_eval_metric_ops_fn
        self._loss_summaries = use_loss_summaries
        super().__init__(self._spec, model_dir, config, warm_start_from=warm_start_from)

    def _spec(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        generator, discriminator = (_in_mode(each, mode) for each in self._networks)
        if mode == ModeKeys.PREDICT:
            with variable_scope("Generator"):
                return EstimatorSpec(mode, predictions=generator(features))
        hooks = list(self._get_hooks(GANTrainOps(0, 1, None))) if mode == ModeKeys.TRAIN else []
        steps = [hook for hook in hooks if isinstance(hook, RunTrainOpsHook)]
        if mode == ModeKeys.TRAIN and sum(hook.train_steps for hook in steps) < 1:
            raise ValueError(
                "get_hooks_fn must return hooks tf.contrib.gan.RunTrainOpsHook that take steps, "
                f"returned: {hooks}."
            )
        build = functools.partial(gan_model, generator, discriminator, labels, features, check_shapes=False)
        model = build()
        for kind in self._summaries:
            write_summaries(model, kind)
        losses = [each(model, add_summaries=self._loss_summaries) for each in self._losses]
        if mode == ModeKeys.EVAL:
            return self._evaluated(model, losses)
        self._train(model, losses, functools.partial(build, reuse=True), steps)
        get_or_create_global_step().assign_add(1)
        others = [hook for hook in hooks if hook not in steps]
        return EstimatorSpec(mode, loss=losses[0] + losses[1], train_op=losses[0], training_hooks=others)

    def _train(
        self,
        model: GANModel,
        losses: list[Any],
        build: Callable[[], GANModel],
        steps: list[RunTrainOpsHook],
    ) -> None:
        """Take all steps; but for the first one, the model is computed with what the last one has changed."""
        again = False
        optimizers = [each() if callable(each) else each for each in self._optimizers]
        variables = (model.generator_variables, model.discriminator_variables)
        for places in (hook.train_ops for hook in steps for _ in range(hook.train_steps)):
            computed = build() if again else None
            for place in places:
                loss = self._losses[place](computed, add_summaries=False) if computed else losses[place]
                create_train_op(loss, optimizers[place], None, variables_to_train=variables[place])
            again = True

    def _evaluated(self, model: GANModel, losses: list[Any]) -> EstimatorSpec:
        names = ("generator_loss", "discriminator_loss")
        found = {name: metrics.mean(loss) for name, loss in zip(names, losses, strict=True)}
        if self._metrics is not None:
            more = self._metrics(model)
            if not isinstance(more, dict):
                raise TypeError(f"get_eval_metric_ops_fn must return a dict, received: {more}")
            found |= more
        return EstimatorSpec(
            ModeKeys.EVAL,
            predictions=model.generated_data,
            loss=losses[0] + losses[1],
            eval_metric_ops=found,
        )


def _in_mode(function: _Function, mode: str) -> _Function:
    takes = "mode" in inspect.signature(function).parameters
    return functools.partial(function, mode=mode) if takes else function
