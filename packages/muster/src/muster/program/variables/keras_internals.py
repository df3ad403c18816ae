"""Use private parts of Keras, for all of muster but ``_remote_variables.py``.

Tried on keras 3.15.1: ``tests/program/variables/test_keras_internals.py`` fails when this changes.

The counters behind automatic names: a model_fn builds its model anew at every call, so ``dense`` would
become ``dense_1`` at the second. Keras offers ``clear_session``, which also forgets what the user built
elsewhere, and nothing to save and restore the counters.

The seeds of initializers and seed generators that were given none: Keras draws them from Python's
process-wide random numbers, which belong to the user and to all threads, and offers nothing else.

The state of a model's trainer: after ``train_on_batch`` Keras keeps references to the variables' arrays that
it no longer needs, and offers no way to drop them. In ``fit`` it reads all variables, and sets them to None.
Each step's state becomes an attribute of the model, in which Keras looks for layers and variables among all
arrays, 2 µs for each; it does not look into mappings other than dictionaries.

The loop over the steps of an epoch: Keras begins each step by itself, and offers no way to take several that
nobody looks at, other than ``steps_per_execution``, which counts them otherwise. And the batches of arrays:
for each Keras goes through the structure of the data anew, 20 µs.

The backend's functions: losses call them, and Keras ignores labels that are no classes. Layers call them, and
one of ``keras.src.ops.nn``, for recurrent loops, attention and normalization.

Before the first step of a call it builds a model by calling it, and after an epoch it takes the results from
the metrics: a model with a ``train_step`` of TensorFlow's kind need have no ``call`` and no such metrics, and
a step of this kind needs the loss and the mean of it that Keras' own steps have.

The arguments of ``Model.compile``, and the metrics made of them: Keras offers the former serialized, which
loses functions of the user's, and the latter as one metric.

The layer that is being called, whether Keras asks it for shapes alone, how to pause this, its seed
generators, and which variables a step binds: a function that draws random numbers in a layer needs a state
there, and Keras takes one only before the layer is built.

What a functional model computes beside its outputs, and metrics of a layer that is built: Keras 2's
``add_loss`` and ``add_metric`` give it more of both, and Keras 3 fixes both when it makes and builds them.

The variables of a layer: Keras finds those among its attributes, and in lists, but not in other objects.

The generator of ``keras.random`` where no seed is given, which belongs to the process: workers take the
chief's, and Keras offers neither to look at its state nor to set it without seeding NumPy and Python, too.

The scope that is active: what code does outside of it while it is, as in TensorFlow's ``init_scope``, happens
to the variables themselves, and Keras can leave a scope only at its end.

Which variables an optimizer decays: Keras says how to exclude some, and not which are.

A variable's array, before it is cast for mixed precision: a tape needs the one that the variable keeps.

``array * variable`` and ``array * tensor``: NumPy converts the right side to an array first, which fails in a
step, and for the symbolic tensors of a functional model everywhere. A priority above its own makes it leave
operators to Keras; functions such as ``numpy.multiply`` convert as before. Keras converts in ``variable *
tensor``, too, and not in ``tensor * variable``: variables leave operators to symbolic tensors.

A variable's value: every call sets hundreds of variables to a step's results. Keras' own ``assign`` converts
and checks each, which takes longer than a small step.
"""

import collections
import contextlib
import functools
import itertools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from muster._keras import keras  # chooses the backend
from muster.keras_hooks import replace, wrap

global_state = keras.src.backend.common.global_state
seed_generator = keras.src.random.seed_generator
stateless_scope = keras.src.backend.common.stateless_scope
array_data = keras.src.trainers.data_adapters.array_data_adapter
backend = keras.src.backend
backend_functions = backend.nn
functions = keras.src.ops.nn

_COUNTERS = "object_name_uids"
_GLOBAL_GENERATOR = "global_seed_generator"
_STATELESS_SCOPE = "stateless_scope"

for _owner in (keras.Variable, keras.KerasTensor):
    replace(_owner, "__array_priority__", 1000)


def _left_to_tensors(operator: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(operator)
    def operate(self: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, keras.KerasTensor) else operator(self, other)

    return operate


for _name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge"):
    _method = f"__{_name}__"
    wrap(keras.Variable, _method, _left_to_tensors)


@contextlib.contextmanager
def fresh_names() -> Iterator[None]:
    """Count automatic names from zero, and restore the counters afterwards."""
    saved = global_state.get_global_attribute(_COUNTERS)
    global_state.set_global_attribute(_COUNTERS, collections.defaultdict(int))
    try:
        yield
    finally:
        global_state.set_global_attribute(_COUNTERS, saved)


def draw_seeds_by(randint: Callable[[int, int], int]) -> None:
    """Let Keras draw the seeds of generators that are given none by a function, from now on."""
    # All that it uses of `random`.
    replace(seed_generator, "python_random", types.SimpleNamespace(randint=randint))


def global_seed_state() -> list[int] | None:
    """Return the state of ``keras.random``'s own generator; None if nothing has drawn from it yet."""
    generator = global_state.get_global_attribute(_GLOBAL_GENERATOR)
    return None if generator is None else np.asarray(generator.state).tolist()


def set_global_seed_state(state: list[int] | None) -> None:
    """Set the state of ``keras.random``'s own generator to one that ``global_seed_state`` returned."""
    if state is None:
        global_state.set_global_attribute(_GLOBAL_GENERATOR, None)
    else:
        generator = seed_generator.global_seed_generator()
        generator.state.assign(np.asarray(state, generator.state.dtype))


def track_variable(layer: Any, variable: Any) -> None:
    """Let a layer have a variable."""
    layer._track_variable(variable)


@contextlib.contextmanager
def may_get_state(layer: Any) -> Iterator[None]:
    """Let a layer get variables and layers as attributes in a ``with`` block, also once it is built."""
    tracker = layer._tracker
    locked = tracker.locked
    tracker.unlock()
    try:
        yield
    finally:
        if locked:
            tracker.lock()


def value_of(variable: Any) -> jax.Array:
    """Return the array of a variable outside of any scope."""
    return variable._value  # type: ignore[no-any-return]


def values_of(variables: Sequence[Any]) -> list[jax.Array]:
    """Return the arrays of variables outside of any scope."""
    return [variable._value for variable in variables]


def is_stateless() -> bool:
    """Return whether variables have their values from a scope in this thread: Keras or muster traces code."""
    return bool(stateless_scope.in_stateless_scope())


@contextlib.contextmanager
def without_scope() -> Iterator[None]:
    """Let variables have values of their own in a ``with`` block, where a scope is active."""
    before = global_state.get_global_attribute(_STATELESS_SCOPE)
    global_state.set_global_attribute(_STATELESS_SCOPE, None)
    try:
        yield
    finally:
        global_state.set_global_attribute(_STATELESS_SCOPE, before)


def current_value(variable: Any) -> tuple[jax.Array | None, bool]:
    """Return a variable's array before any cast, and whether it is the variable's own, not one of a scope."""
    scope = stateless_scope.get_stateless_scope()
    given = None if scope is None else scope.get_current_value(variable)
    return (variable._value, True) if given is None else (given, False)


def set_values(variables: Sequence[Any], values: Sequence[jax.Array]) -> None:
    """Set variables to arrays of their shapes and dtypes; surplus arrays are ignored."""
    for variable, value in zip(variables, values, strict=False):
        variable._value = value


def forget_state(model: Any) -> None:
    """Drop the arrays that a model's trainer holds; its variables have them."""
    model._jax_state = None


@contextlib.contextmanager
def keeping_values(model: Any) -> Iterator[None]:
    """Let a model's variables have their values if Keras fails in a ``with`` block.

    Keras' trainer takes the values out of the variables, and gives them back when all has gone well. What
    steps have changed counts; a step that fails before any other has changed nothing.
    """
    get_state = model._get_jax_state
    taken: list[tuple[Any, Any]] = []

    def get(*, purge_model_variables: bool = False, **wanted: bool) -> Any:
        if purge_model_variables:
            optimizer = getattr(model, "optimizer", None)
            own = optimizer.variables if optimizer else ()
            variables = [*model.variables, *model.metrics_variables, *own]
            taken[:] = [(variable, variable._value) for variable in variables]
        return get_state(purge_model_variables=purge_model_variables, **wanted)

    vars(model)["_get_jax_state"] = get
    try:
        yield
    except BaseException:
        model.jax_state_sync()
        for variable, value in taken:
            if variable._value is None and value is not None and not value.is_deleted():
                variable._value = value
        forget_state(model)
        note_synced(model)
        raise
    finally:
        del vars(model)["_get_jax_state"]


def search_no_state(model: Any) -> None:
    """Let a model take the state of its trainer, after each step, without a search for layers in it."""
    model._setattr_hook = _without_search


def _without_search(name: str, value: Any) -> tuple[str, Any]:
    return name, types.MappingProxyType(value) if name == "_jax_state" and value is not None else value


def keep_no_state(model: Any) -> None:
    """Let a model's trainer take no values of variables, which are elsewhere: its steps get empty lists."""
    model._get_jax_state = _empty_state


def _empty_state(*, purge_model_variables: bool = False, **wanted: bool) -> tuple[list[Any], ...]:
    return tuple([] for each in wanted.values() if each)


_STATE = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")


def note_state(model: Any, state: Sequence[list[jax.Array]]) -> None:
    """Let a model's trainer keep the state of a step of ``fit`` or, without an optimizer's, ``evaluate``."""
    names = _STATE if len(state) == len(_STATE) else (*_STATE[:2], _STATE[3])
    model._jax_state = dict(zip(names, state, strict=True))


def loop_further(epochs: Any) -> tuple[int, int, Iterator[Any]] | None:
    """Begin the next step of one of Keras' iterators over epochs, whose loop runs; None at the epoch's end.

    Returns:
        The number of the first batch of the step, of the last, and what batches are drawn from.
    """
    return next(epochs._epoch_iterator, None)


def loop_step_again(epochs: Any, step: tuple[int, int, Iterator[Any]]) -> None:
    """Let Keras' loop begin a step that `loop_further` has begun."""
    epochs._epoch_iterator = itertools.chain([step], epochs._epoch_iterator)


def slice_fast(epochs: Any) -> None:
    """Let one of Keras' iterators over epochs slice arrays in an eighth of the time, as it does by itself."""
    adapter = epochs.data_adapter
    if isinstance(adapter, array_data.ArrayDataAdapter) and adapter._shuffle != "batch":
        adapter._get_iterator = functools.partial(_slices, adapter, adapter._get_iterator)


def _slices(adapter: Any, keras_slices: Any, part_of: Callable[..., Any], arrays: Any) -> Iterator[Any]:
    leaves, structure = jax.tree.flatten(arrays)
    if not all(isinstance(leaf, array_data.array_slicing.Sliceable) for leaf in leaves):
        yield from keras_slices(part_of, arrays)
        return
    count, size = adapter._num_samples, adapter._batch_size
    order = np.random.permutation(count) if adapter._shuffle else None
    # Parts of NumPy's arrays need no conversion.
    arrays = [each.array for each in leaves if type(each) is array_data.array_slicing.NumpySliceable]
    for start in range(0, count, size):
        rows = slice(start, start + size)
        place = rows if order is None else order[rows]
        if len(arrays) == len(leaves):
            parts = [each[place] for each in arrays]
        else:
            parts = [part_of(each, place) for each in leaves]
        yield jax.tree_util.tree_unflatten(structure, parts)


def is_synced(model: Any) -> bool:
    """Return whether a model's variables have their values, so that its trainer reads them before a step."""
    return bool(model._jax_state_synced)


def note_synced(model: Any) -> None:
    """Note that a model's variables have their values, so that its trainer asks for its state again."""
    model._jax_state_synced = True


def replace_build(model: Any, build: Callable[..., None]) -> None:
    """Let a model call ``build(Keras' function, iterator=…, data_batch=…)`` where Keras builds its layers."""
    model._symbolic_build = functools.partial(build, type(model)._symbolic_build.__get__(model))


def replace_results(model: Any, results: Callable[..., Any]) -> None:
    """Let a model call ``results(Keras' function, logs)`` for the results of an epoch or an evaluation."""
    model._get_metrics_result_or_logs = functools.partial(
        results, type(model)._get_metrics_result_or_logs.__get__(model)
    )


def keras_step(model: Any, x: Any, y: Any, sample_weight: Any, *, training: bool) -> tuple[Any, Any]:
    """Return a model's predictions and loss of a batch, and add the loss to its mean, as Keras' steps do."""
    y_pred = predictions(model, x, training=training)
    loss = model._compute_loss(x, y, y_pred, sample_weight=sample_weight, training=training)
    rows = next(leaf for leaf in jax.tree.leaves(x)).shape[0]
    model._loss_tracker.update_state(loss, sample_weight=rows)
    return y_pred, loss


def compiled_loss(model: Any, y: Any, y_pred: Any, sample_weight: Any, others: Sequence[Any]) -> Any:
    """Return the loss that a model was compiled with, plus others, and add the sum to its mean of losses.

    None if there are none.
    """
    compiled = model._compile_loss
    found = [] if compiled is None else [compiled(y, y_pred, sample_weight)]
    losses = [loss for loss in (*found, *others) if loss is not None]
    if not losses:
        return None
    loss = sum(losses[1:], losses[0])
    rows = next(leaf for leaf in jax.tree.leaves(y_pred)).shape[0]
    model._loss_tracker.update_state(loss, sample_weight=rows)
    return loss


def losses_of_outputs(model: Any) -> list[Any]:
    """Return the means of the losses of a compiled model: of their sum, and of each output of several."""
    of_outputs = [] if model._compile_loss is None else model._compile_loss.metrics
    return [model._loss_tracker, *of_outputs]


def predictions(model: Any, x: Any, *, training: bool) -> Any:
    """Call a model, and tell it whether it is training if it wants to know."""
    return model(x, training=training) if model._call_has_training_arg else model(x)


def compile_arguments(model: Any) -> dict[str, Any]:
    """Return the loss, metrics and weights that a model was compiled with, as they were given."""
    names = ("loss", "loss_weights", "metrics", "weighted_metrics")
    return {name: model._compile_config.config[name] for name in names}


def compiled_metrics(model: Any) -> dict[str, Any]:
    """Return the metrics that a model was compiled with and has updated, by the names of their results."""
    compiled = model._compile_metrics
    return {} if compiled is None else dict(zip(compiled.result(), compiled.metrics, strict=True))


def updated_metrics(model: Any) -> list[Any]:
    """Return the metrics that a model was compiled with; none before it has updated them."""
    compiled = model._compile_metrics
    return [] if compiled is None else list(compiled.metrics)


def rename(variable: Any, name: str) -> None:
    """Change what ``variable.name`` returns; the path, by which everything finds a variable, stays."""
    variable._name = name


def own_name(variable: Any) -> str:
    """Return the last part of a variable's path, such as ``kernel``, whatever ``variable.name`` returns."""
    return str(variable.path).rpartition("/")[2]


def setting_of_every_step(optimizer: Any, variable: Any) -> str | None:
    """Return the setting by which an optimizer changes a variable, or an average of it, at every step.

    It does so also where the gradient is zero.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if inner.weight_decay and inner._use_weight_decay(variable):
        return f"weight_decay={inner.weight_decay}"
    for name in ("use_ema", "gradient_accumulation_steps"):
        if getattr(inner, name):
            return f"{name}={getattr(inner, name)}"
    return None


def compute_too(model: Any, tensor: Any) -> None:
    """Let a functional model compute a tensor, made of its inputs, whenever it is called.

    Raises:
        ValueError: The tensor needs other inputs.
    """
    known = {id(layer) for layer in model.layers}
    ends = [*model._outputs, *getattr(model, "_ends", ()), tensor]
    graph = keras.src.ops.function.map_graph(model._inputs, ends)
    with keras.src.utils.tracking.DotNotTrackScope():
        model._ends = ends[len(model._outputs) :]
        model._nodes, model._nodes_by_depth, model._operations, model._operations_by_depth = graph
    for layer in model.layers:
        if id(layer) not in known:
            model._tracker.track(layer)


def own_metric(layer: Any, name: str, make: Callable[[], Any]) -> Any:
    """Return a layer's metric of a name; one is made if there is none, also if the layer is built."""
    for metric in layer._metrics:
        if metric.name == name:
            return metric
    metric = make()
    layer._metrics.append(metric)
    return metric


def has_metrics_in_layers(model: Any) -> bool:
    """Return whether a model, or a layer of it, has metrics of its own, which its call may update."""
    return any(layer._metrics for layer in layers_within(model))


def layers_within(model: Any) -> list[Any]:
    """Return a model and all layers in it, also those in layers."""
    return list(model._flatten_layers())


def is_built(model: Any) -> bool:
    """Return whether a model's layers, and what it was compiled with, have their variables."""
    compiled = (model._compile_loss, model._compile_metrics)
    return all(part is None or part.built for part in (*layers_within(model), *compiled))


def build_on_values(model: Any, batch: Any) -> None:
    """Build a model that runs eagerly on a batch: its code, and that of metrics, may need the values.

    Keras calls it on shapes, where Python's ``if`` and NumPy fail.
    """
    x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    y_pred = predictions(model, x, training=False)
    if y is not None:
        model.compute_metrics(x, y, y_pred, sample_weight=weights)
        model._compute_loss(x, y, y_pred, sample_weight=weights, training=False)
        model.reset_metrics()


def layer_being_called() -> Any:
    """Return the outermost layer that is being called here, such as the model in ``fit``; None if none is."""
    context = global_state.get_global_attribute("current_call_ctx")
    return None if context is None else context.entry_layer


def only_shapes_are_asked() -> bool:
    """Return whether Keras calls code here for the shapes of its results, to build what it uses."""
    return global_state.get_global_attribute("symbolic_scope") is not None


def is_built_by_call(layer: Any) -> bool:
    """Return whether Keras calls the outermost layer on values to build it, as ``predict`` does.

    What such a call changes is lost. Models whose steps run on values are called likewise in these.
    """
    runs_on_shapes = isinstance(layer, keras.Model) and layer.jit_compile and not layer.run_eagerly
    return runs_on_shapes and is_stateless()


@contextlib.contextmanager
def outside_of_shapes() -> Iterator[None]:
    """Run code as if Keras did not ask for shapes around it: it may create variables of any values."""
    names = ("stateless_scope", "symbolic_scope")
    around = [global_state.get_global_attribute(name) for name in names]
    for name in names:
        global_state.set_global_attribute(name, None)
    try:
        yield
    finally:
        for name, scope in zip(names, around, strict=True):
            global_state.set_global_attribute(name, scope)


def own_generator(layer: Any, generator: Any) -> None:
    """Let a layer have a seed generator, also when it is built: its state is then one of the variables."""
    layer._seed_generators.append(generator)


def is_bound(variable: Any) -> bool:
    """Return whether a variable has a value of its own in the stateless scope that is active, if one is."""
    return bound_value(variable) is not None


def bound_value(variable: Any) -> Any:
    """Return the value of its own that a variable has in the stateless scope that is active, if any."""
    scope = stateless_scope.get_stateless_scope()
    return None if scope is None else scope.state_mapping.get(id(variable))
