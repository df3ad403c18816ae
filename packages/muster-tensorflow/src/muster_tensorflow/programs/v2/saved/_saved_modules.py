"""A ``tf.Module`` in a saved model: its variables, its functions, and the modules in it."""

import functools
import inspect
import io
import json
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from muster import SavedModelError, keras
from muster.data import TensorSpec
from muster.extend import ConcreteFunction, Function, dtype_named
from muster_tensorflow.programs.v2._function import needed_value, place_of
from muster_tensorflow.programs.v2._module import OwnModule
from muster_tensorflow.programs.v2._variable import Variable
from muster_tensorflow.programs.v2.checkpoints._checkpoint_objects import Objects
from muster_tensorflow.programs.v2.saved._module_functions import (
    FunctionToSave,
    LoadedFunction,
    of_any_rank,
    of_the_only_size,
)
from muster_tensorflow.programs.v2.saved._pickled_objects import pickled, unpickled

_log = logging.getLogger(__name__)

_FOLDER = "module"
OBJECTS = os.path.join(_FOLDER, "objects.json")
_VALUES = os.path.join(_FOLDER, "variables.npz")
_PYTHON = os.path.join(_FOLDER, "python.pickle")


def write_module(module: Any, folder: str) -> dict[str, str]:
    """Write what a module consists of, and return the files by their paths in a saved model.

    Functions are saved for their ``input_signature``, or else for the kinds of arguments with which they were
    called, and Keras layers that were called with one array, as for inference. Those that take or return
    text, or branch on tensors, are kept as Python code, with their modules. Other attributes are lost.

    Args:
        module: The module, a Checkpoint, or a Keras model.
        folder: Where to write.

    Raises:
        SavedModelError: A function cannot be saved.

    Source: tensorflow/python/saved_model/save.py, ``_AugmentedGraphView``.
    """
    writer = _Writer()
    writer.refer(module)
    python = writer.python_code()
    values = {str(number): np.asarray(each.value) for number, each in enumerate(writer.variables)}
    described = [
        [each.path, bool(each.trainable), values[str(number)].dtype.name, [*values[str(number)].shape]]
        for number, each in enumerate(writer.variables)
    ]
    stored = io.BytesIO()
    raw: Any = {name: np.frombuffer(each.tobytes(), np.uint8) for name, each in values.items()}
    np.savez(stored, **raw)
    files = {
        OBJECTS: json.dumps({"objects": writer.objects, "variables": described}).encode(),
        _VALUES: stored.getvalue(),
    }
    files |= {_file(number): data for number, data in enumerate(writer.modules)}
    if python is not None:
        files[_PYTHON] = python
    paths = {}
    for name, data in files.items():
        paths[name] = os.path.join(folder, os.path.basename(name))
        with open(paths[name], "wb") as file:
            file.write(data)
    return paths


def read_module(read: Callable[[str], bytes]) -> "LoadedModule":
    """Return the module that `write_module` wrote.

    Args:
        read: Returns the bytes of a file.
    """
    stored = json.loads(read(OBJECTS))
    values = np.load(io.BytesIO(read(_VALUES)))
    variables = []
    for number, (name, trainable, dtype, shape) in enumerate(stored["variables"]):
        value = np.frombuffer(values[str(number)].tobytes(), dtype_named(dtype)).reshape(shape)
        variables.append(Variable(value, trainable=trainable, name=name))
    objects = [LoadedModule() for _ in stored["objects"]]

    def found(reference: Mapping[str, Any]) -> Any:
        ((kind, value),) = reference.items()
        match kind:
            case "variable":
                return variables[value]
            case "object":
                return objects[value]
            case "list":
                return [found(each) for each in value]
        return {key: found(each) for key, each in value.items()}

    for each, record in zip(objects, stored["objects"], strict=True):
        for name, reference in record["attributes"].items():
            vars(each)[name] = found(reference)
        for name, concrete in record["functions"].items():
            used = [[variables[number] for number in one["used"]] for one in concrete]
            data = [read(_file(one["module"])) for one in concrete]
            vars(each)[name] = LoadedFunction(name, concrete, data, used)
    of_python = {
        number: record["python"] for number, record in enumerate(stored["objects"]) if record.get("python")
    }
    if of_python:
        for each, (number, names) in zip(_unpickled(read, variables), of_python.items(), strict=True):
            for name in names:
                vars(objects[number])[name] = getattr(each, name)
    return objects[0]


def _unpickled(read: Callable[[str], bytes], variables: list[Any]) -> list[Any]:
    try:
        return unpickled(read(_PYTHON), variables)
    except (AttributeError, ImportError) as exc:
        raise SavedModelError(
            f"Functions of the saved module are kept as Python code, which cannot be loaded here: {exc}. "
            "Make importable what the program imported that saved it."
        ) from exc


class LoadedModule(OwnModule):
    """A module that was loaded: it has the variables, functions and modules of the one that was saved.

    Attributes:
        signatures: Functions from inputs to a dict of outputs, by name; none if none were saved.
    """

    def __init__(self) -> None:
        super().__init__()
        self.signatures: dict[str, Any] = {}

    @property
    def variables(self) -> Any:
        """All variables in it, or those that the saved module called so."""
        return vars(self).get("variables", super().variables)

    @property
    def trainable_variables(self) -> Any:
        """The variables that are trained, or those that the saved module called so."""
        return vars(self).get("trainable_variables", super().trainable_variables)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function ``__call__`` of the module.

        Raises:
            TypeError: It was not saved.
        """
        called = vars(self).get("__call__")
        if called is None:
            raise TypeError(
                "The saved module cannot be called: its __call__ was no tf.function, or one without an "
                "input_signature that was not called before the module was saved."
            )
        return called(*args, **kwargs)


class _Writer:
    """Collects objects, variables and functions, and numbers them."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.variables: list[Any] = []
        self.modules: list[bytes] = []
        self._numbers: dict[int, int] = {}
        self._python: list[Any] = []
        self._reason: Exception | None = None

    def refer(self, value: Any) -> dict[str, Any] | None:
        """Return where a value is found again; None for what is not saved."""
        if isinstance(value, keras.Variable):
            return {"variable": self._number(value)}
        if isinstance(value, Mapping):
            return {"dict": {str(k): found for k, each in value.items() if (found := self.refer(each))}}
        if isinstance(value, list | tuple):
            return {"list": [found for each in value if (found := self.refer(each)) is not None]}
        is_root = not self.objects
        is_module = isinstance(value, OwnModule | Objects)
        if not is_module and not isinstance(getattr(value, "variables", None), list):
            return None
        if id(value) in self._numbers:
            return {"object": self._numbers[id(value)]}
        number = self._numbers[id(value)] = len(self.objects)
        record: dict[str, Any] = {"attributes": {}, "functions": {}}
        self.objects.append(record)
        if not is_module and not is_root:  # a layer, or a generator of random numbers
            record["attributes"]["weights"] = self.refer([*value.variables])
            if (spec := _input_of(value)) is not None:
                called = self._function(
                    f"{value.name}.__call__", lambda inputs: value(inputs), (spec,), {}, False
                )
                record["functions"] |= {} if called is None else {"__call__": [called]}
            return {"object": number}
        objects = vars(value).get("_objects", {}) if isinstance(value, Objects) else {}
        for name, each in {**vars(value), **objects}.items():
            if each is objects and objects:
                continue
            if (found := self.refer(each)) is not None and name not in ("_name", "signatures"):
                record["attributes"][name] = found
        for name, function in functions_of(value).items():
            try:
                concrete = [self._function(name, *each) for each in _concrete(function)]
            except SavedModelError as exc:
                self._reason = self._reason or exc
                record.setdefault("python", []).append(name)
                continue
            if saved := [each for each in concrete if each is not None]:
                record["functions"][name] = saved
            elif getattr(getattr(function, "func", function), "has_run_uncompiled", False):
                record.setdefault("python", []).append(name)
        if "python" in record:
            _log.warning(
                "Functions of %s are kept as Python code, which tf.saved_model.load alone runs: %s. %s",
                *(type(value).__name__, ", ".join(record["python"]), self._reason or "They run uncompiled."),
            )
            self._python.append(value)
        return {"object": number}

    def python_code(self) -> bytes | None:
        """Return the modules with functions that are kept as Python code; None if there are none.

        Raises:
            SavedModelError: One cannot be pickled.
        """
        if not self._python:
            return None
        try:
            return pickled(self._python, self._number)
        except Exception as exc:  # whatever a part of it raises
            raise SavedModelError(
                f"{type(self._python[0]).__name__} has functions that cannot be saved: they cannot be "
                f"compiled, and it cannot be pickled: {exc} {self._reason or ''}"
            ) from exc

    def _function(
        self, name: str, python: Any, args: Any, kwargs: Any, needed: bool
    ) -> dict[str, Any] | None:
        """Return a function as data; None if it need not take these arguments, and does not.

        Raises:
            SavedModelError: It cannot be compiled.
        """
        if any(is_text_spec(leaf) for leaf in jax.tree.leaves((args, kwargs))):
            raise SavedModelError(f"The function {name} takes text, and no compiled function does.")
        try:
            made = self._made(name, python, args, kwargs, needed)
        except Exception as exc:
            if (needed_by := needed_value(exc)) is None:
                raise
            raise SavedModelError(
                f"The function {name} cannot be compiled: Python needs a value in {place_of(needed_by)}. "
                "With tf.cond, tf.where or tf.while_loop there it can."
            ) from exc
        if made is None:
            return None
        self.modules.append(made.data)
        used = [self._number(each) for each in made.used]
        return {**made.as_data(), "used": used, "module": len(self.modules) - 1}

    def _made(self, name: str, python: Any, args: Any, kwargs: Any, needed: bool) -> FunctionToSave | None:
        try:
            return FunctionToSave(name, python, args, kwargs)
        except Exception as exc:
            if not needed:
                return None
            if needed_value(exc) is not None:
                raise
            largest = max((size for each in self.variables for size in each.shape), default=1)
            fitting = of_the_only_size(name, python, args, kwargs, largest)
            if fitting is None:
                raise SavedModelError(
                    f"The function {name} cannot be compiled: {exc} Where its input_signature has None for a "
                    "size, it must take any, or one alone: give the others numbers, such as "
                    "tf.TensorSpec([None, 30])."
                ) from exc
            return fitting

    def _number(self, variable: Any) -> int:
        for number, each in enumerate(self.variables):
            if each is variable:
                return number
        self.variables.append(variable)
        return len(self.variables) - 1


def functions_of(module: Any) -> dict[str, Any]:
    """Return the functions of a module, its methods and its attributes, by name."""
    names = [name for name in dir(type(module)) if isinstance(inspect.getattr_static(module, name), Function)]
    names += [name for name, each in vars(module).items() if isinstance(each, Function | ConcreteFunction)]
    return {name: getattr(module, name) for name in names}


def _input_of(layer: Any) -> TensorSpec | None:
    """Return what a Keras layer takes, for any number of rows; None where not known, or no one array."""
    if not isinstance(layer, keras.Layer) or not layer.built:
        return None
    if isinstance(layer, keras.Model):
        given = getattr(layer, "inputs", None) or []
        shapes, dtype = [each.shape for each in given], given[0].dtype if given else None
    else:
        shapes = [(layer.get_build_config() or {}).get("input_shape")] if layer.autocast else []
        dtype = layer.compute_dtype
    if (
        len(shapes) != 1
        or not shapes[0]
        or not all(size is None or isinstance(size, int) for size in shapes[0])
    ):
        return None
    return TensorSpec((None, *shapes[0][1:]), dtype_named(str(dtype)))


def _concrete(function: Any) -> list[tuple[Any, Any, Any, bool]]:
    """Return the Python function with each kind of arguments, and whether it must take them."""
    bound: tuple[Any, ...] = ()
    calls: list[tuple[Any, Any]] = []
    if isinstance(function, ConcreteFunction):
        calls, function = [(function.specs, function.named)], function.function
    if isinstance(function, functools.partial):
        function, bound = function.func, function.args
    if not calls and function.input_signature is not None:
        calls = [(tuple(function.input_signature), {})]
    calls = calls or _of_this(bound, function.traced_arguments())
    python = functools.partial(function.python_function, *bound)
    if not calls and not inspect.signature(python).parameters:
        calls = [((), {})]
    inner = [] if calls else _of_this(bound, function.inner_arguments())
    found = []
    for args, kwargs in calls or inner:
        ranks = of_any_rank(args, kwargs)
        found += [(python, *each, len(ranks) == 1 and not inner) for each in ranks]
    return found


def _of_this(bound: tuple[Any, ...], calls: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the calls of a method of one instance, without the instance."""
    return [
        (args[len(bound) :], kwargs)
        for args, kwargs in calls
        if all(one is other for one, other in zip(args, bound, strict=False))
    ]


def is_text_spec(value: Any) -> bool:
    """Return whether a value stands for text."""
    return isinstance(value, TensorSpec) and value.dtype.kind in "USO"


def _file(number: int) -> str:
    return os.path.join(_FOLDER, f"function_{number}.exported")
