"""``tf.contrib.gan.estimator``.

Source: tensorflow/contrib/gan/python/estimator/python/gan_estimator_impl.py, ``GANEstimator``.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from muster.estimator import Estimator, EstimatorSpec, ModeKeys
from muster_tensorflow.library.contrib.gan._train import (
    GANModel,
    GANTrainSteps,
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
        get_hooks_fn: What ``get_sequential_train_hooks`` returns, for several steps of each network.
        get_eval_metric_ops_fn: Takes the `GANModel`; returns more metrics by name.
        add_summaries: Only None.
        use_loss_summaries: Whether the losses write summaries.
        config: The `RunConfig`.
        warm_start_from: As of `Estimator`.
        is_chief: Unused.

    Raises:
        ValueError: A loss is no function, or `use_loss_summaries` is neither a bool nor None.
        TypeError: `get_hooks_fn` or `add_summaries` is anything else.
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
        get_hooks_fn: GANTrainSteps | None = None,
        get_eval_metric_ops_fn: _Function | None = None,
        add_summaries: None = None,
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
        steps = get_sequential_train_hooks() if get_hooks_fn is None else get_hooks_fn
        if not isinstance(steps, GANTrainSteps):
            raise TypeError(
                "get_hooks_fn must be what tf.contrib.gan.get_sequential_train_hooks returns: there is no "
                "session for hooks to run steps in."
            )
        if add_summaries is not None:
            raise TypeError("add_summaries must be None: call tf.summary in generator_fn.")
        self._networks: Any = (generator_fn, discriminator_fn)
        self._losses: Any = (generator_loss_fn, discriminator_loss_fn)
        self._optimizers: Any = (generator_optimizer, discriminator_optimizer)
        self._steps = steps
        self._metrics = get_eval_metric_ops_fn
        self._loss_summaries = use_loss_summaries
        super().__init__(self._spec, model_dir, config, warm_start_from=warm_start_from)

    def _spec(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        generator, discriminator = (_in_mode(each, mode) for each in self._networks)
        if mode == ModeKeys.PREDICT:
            with variable_scope("Generator"):
                return EstimatorSpec(mode, predictions=generator(features))
        build = functools.partial(gan_model, generator, discriminator, labels, features, check_shapes=False)
        model = build()
        losses = [each(model, add_summaries=self._loss_summaries) for each in self._losses]
        if mode == ModeKeys.EVAL:
            return self._evaluated(model, losses)
        self._train(model, losses, functools.partial(build, reuse=True))
        get_or_create_global_step().assign_add(1)
        return EstimatorSpec(mode, loss=losses[0] + losses[1], train_op=losses[0])

    def _train(self, model: GANModel, losses: list[Any], build: Callable[[], GANModel]) -> None:
        """Take all steps; but for the first one, the model is computed with what the last one has changed."""
        again = False
        optimizers = [each() if callable(each) else each for each in self._optimizers]
        variables = (model.generator_variables, model.discriminator_variables)
        for place, count in enumerate(self._steps):
            for _ in range(count):
                loss = self._losses[place](build(), add_summaries=False) if again else losses[place]
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
