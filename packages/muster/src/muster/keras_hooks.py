"""Set muster's hooks in Keras and JAX; `HOOKS` lists them all, each with its reason.

Keras has no hooks for what a step of several replicas needs, such as who may create variables, or which data
``fit`` takes. So some methods of Keras' classes are wrapped: a few for good, most of them only while a
strategy's scope is active in any thread. In threads that trace nothing, what is wrapped behaves as Keras'
own, and so does what is wrapped for good, wherever Keras' own works.

A test compares this with Keras and JAX as they are without muster.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

When = Literal["always", "in scopes", "under tapes", "in use"]


@dataclass(frozen=True, kw_only=True)
class Hook:
    """Attributes of a class or module of Keras or JAX that muster sets.

    Attributes:
        owner: The class or module.
        names: The attributes.
        why: The reason.
        when: How long they are set: "always", from when ``by`` is imported; "in scopes", while any thread
            traces a step or is in the scope of a strategy; "under tapes", while a ``GradientTape`` is open;
            "in use", once it is first needed, for good.
        by: The module of muster that sets them.
    """

    owner: str
    names: tuple[str, ...]
    why: str
    when: When
    by: str


_OPERATORS = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge")

HOOKS = (
    Hook(
        owner="keras.src.backend.Variable",
        names=("__array_priority__",),
        why="NumPy leaves `array * variable` to Keras, as it would fail in a step.",
        when="always",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.backend.common.keras_tensor.KerasTensor",
        names=("__array_priority__",),
        why="NumPy leaves `array * tensor` to Keras, as it fails for the tensors of a functional model.",
        when="always",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.backend.Variable",
        names=tuple(f"__{name}__" for name in _OPERATORS),
        why="Variables leave `variable * tensor` to the tensor of a functional model; Keras' own convert it.",
        when="always",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.backend.Variable",
        names=("assign",),
        why="Notes trainable variables that layers assign to, which Keras' steps on JAX would drop.",
        when="always",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.optimizers.loss_scale_optimizer.LossScaleOptimizer",
        names=("apply",),
        why="Scales in eager code, where Keras' own raises an error.",
        when="always",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.optimizers.optimizer.Optimizer",
        names=("apply_gradients",),
        why="Takes TensorFlow's arguments for gradients that are summed already, and no gradients at all.",
        when="always",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.backend.jax.trainer.JAXTrainer",
        names=("fit", "evaluate", "predict"),
        why="A strategy runs the models built in its scope, and all models take datasets of muster's.",
        when="always",
        by="muster.distribute",
    ),
    Hook(
        owner="keras.src.backend.jax.trainer.JAXTrainer",
        names=("train_on_batch", "test_on_batch", "predict_on_batch"),
        why="Models with a `train_step` of TensorFlow's kind, which takes the data alone, run by it.",
        when="always",
        by="muster.distribute",
    ),
    Hook(
        owner="keras.src.backend.jax.trainer.JAXTrainer",
        names=("train_step", "test_step", "predict_step"),
        why="A `train_step` of TensorFlow's kind calls that of its base class with the data alone.",
        when="always",
        by="muster.distribute",
    ),
    Hook(
        owner="keras.src.trainers.trainer.Trainer",
        names=("compile",),
        why="The metrics of a model that a strategy runs are made in its scope.",
        when="always",
        by="muster.distribute",
    ),
    Hook(
        owner="keras.src.callbacks.tensorboard.TensorBoard",
        names=("set_model", "summary"),
        why="The callback writes by muster's summaries; Keras' own imports TensorFlow.",
        when="always",
        by="muster.distribute",
    ),
    Hook(
        owner="keras.src.models.model.Model",
        names=("load_weights", "save", "save_weights"),
        why="Models are saved and loaded under names of files that Keras 3 refuses, and Keras 2 took.",
        when="always",
        by="muster.distribute",
    ),
    Hook(
        owner="keras.src.callbacks.model_checkpoint.ModelCheckpoint",
        names=("__init__",),
        why="The callback takes these names, too.",
        when="always",
        by="muster.distribute",
    ),
    Hook(
        owner="keras.src.callbacks.backup_and_restore.BackupAndRestore",
        names=("__init__",),
        why="Paths of file systems that muster cannot write are refused, and `file://` is taken.",
        when="always",
        by="muster.distribute",
    ),
    Hook(
        owner="keras.src.callbacks.csv_logger.CSVLogger",
        names=("__init__",),
        why="Paths of file systems that muster cannot write are refused, and `file://` is taken.",
        when="always",
        by="muster.distribute",
    ),
    Hook(
        owner="keras.src.callbacks.tensorboard.TensorBoard",
        names=("__init__",),
        why="Paths of file systems that muster cannot write are refused, and `file://` is taken.",
        when="always",
        by="muster.distribute",
    ),
    Hook(
        owner="keras.src.backend.Variable",
        names=("__init__",),
        why="The scope knows the variables that are created in it, and says where each lies.",
        when="in scopes",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.backend.Variable",
        names=("assign", "assign_add", "assign_sub"),
        why="A step knows which variables it assigns to, and refuses what would differ between replicas.",
        when="in scopes",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.layers.layer.Layer",
        names=("add_weight",),
        why="Weights are told from other variables, as the kinds are reduced differently.",
        when="in scopes",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.metrics.metric.Metric",
        names=("__getattribute__", "add_variable"),
        why="Variables of metrics are told from others, and a step knows when `result` is computed.",
        when="in scopes",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.optimizers.optimizer.Optimizer",
        names=("add_variable", "add_variable_from_reference"),
        why="The variables of an optimizer lie where the ones lie that they belong to.",
        when="in scopes",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.optimizers.optimizer.Optimizer",
        names=("apply",),
        why="Gradients are summed over replicas before they are applied, and the global step counts.",
        when="in scopes",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.optimizers.loss_scale_optimizer.LossScaleOptimizer",
        names=("apply", "stateless_apply"),
        why="So are those of an optimizer that scales the loss, which applies them in a branch.",
        when="in scopes",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.optimizers.optimizer.Optimizer",
        names=("iterations", "learning_rate"),
        why="An optimizer from outside of a model_fn is, in the step, the copy that stands for it there.",
        when="in scopes",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.backend.jax.nn",
        names=("sparse_categorical_crossentropy",),
        why="Labels that are no classes are errors; JAX ignores them.",
        when="in scopes",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.layers.core.embedding.Embedding",
        names=("call",),
        why="Ids that have no row are errors; JAX ignores them.",
        when="in scopes",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.models.model.Model",
        names=("__init__",),
        why="A model that is built in the scope of a strategy is run by it.",
        when="in scopes",
        by="muster.distribute",
    ),
    Hook(
        owner="keras.src.layers.layer.Layer",
        names=("__setattr__",),
        why="A layer has the parts of a sharded variable that is its attribute.",
        when="in scopes",
        by="muster.distribute",
    ),
    Hook(
        owner="keras.src.backend.Variable",
        names=("value",),
        why="A tape knows the variables that are read.",
        when="under tapes",
        by="muster.program",
    ),
    Hook(
        owner="keras.src.random.seed_generator",
        names=("python_random",),
        why="Steps draw seeds from a generator of their own; Keras takes Python's, which is the user's.",
        when="in use",
        by="muster.program",
    ),
    Hook(
        owner="jax._src.compiler",
        names=("_cache_write",),
        why="What is compiled is written beside its place, so that no other task reads half of it.",
        when="in use",
        by="muster._compilation_cache",
    ),
    Hook(
        owner="jax._src.interpreters.mlir._platform_specific_lowerings",
        names=("conv_general_dilated", "reduce_window_sum", "select_and_scatter_add"),
        why="Convolutions and pooling get rules for CPUs that are faster; `muster.cpu` turns them off.",
        when="in use",
        by="muster.cpu",
    ),
)
"""All that muster sets in Keras and JAX.

It registers classes and primitives of its own with both, by what they offer for it. And where `muster.keras`
is what imports Keras, ``keras.wrappers`` is a stand-in that is loaded when it is first used.
"""

_NAMED = {(hook.owner, name) for hook in HOOKS for name in hook.names}


def install(owner: type | ModuleType | Any, name: str, value: Any) -> None:
    """Set an attribute of a class or module of Keras or JAX that `HOOKS` names.

    Raises:
        RuntimeError: It does not name it.
    """
    require_named(owner, name)
    setattr(owner, name, value)


def wrap(owner: type | ModuleType | Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    """Set an attribute that `HOOKS` names to what a function makes of it."""
    install(owner, name, wrapper(getattr(owner, name)))


def require_named(owner: type | ModuleType | Any, name: str) -> None:
    """Check that `HOOKS` names an attribute of a class or module.

    Raises:
        RuntimeError: It does not.
    """
    path = owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
    if (path, name) not in _NAMED:
        raise RuntimeError(f"muster.keras_hooks does not name {path}.{name}: say there why muster sets it.")
