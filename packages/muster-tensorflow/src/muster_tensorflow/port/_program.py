"""Find where a program uses names of TensorFlow, from its syntax tree alone."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

# How programs import the names, and what the modules are here: the longest prefix counts. Keras by itself is
# among them: muster's module chooses JAX for it, and has its layers for text, which need TensorFlow in Keras.
_ROOTS = {
    "tensorflow": "tf",
    "tensorflow_estimator": "tf",
    "keras": "tf.keras",
    "tensorflow_datasets": "tfds",
    "tensorboard.plugins.hparams": "tb.hparams",
    "muster_tensorflow.tensorboard.plugins.hparams": "tb.hparams",
    "muster_tensorflow": "tf",
    "muster_tensorflow.datasets": "tfds",
}
Bindings = dict[str, str | None]
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, order=True)
class Use:
    """A place at which a program uses a name.

    Attributes:
        line: The number of the line.
        path: The whole name, such as ``tf.keras.layers.Dense``.
        is_module: Whether the place imports it as a module.
    """

    line: int
    path: str
    is_module: bool = False


@dataclass
class Program:
    """The names of TensorFlow that a program uses.

    Attributes:
        tree: The syntax tree.
        uses: The places at which it uses names, as if ``import tensorflow`` were that of TensorFlow 2.
        others: The line and the name of each package around TensorFlow that it imports.
        imports: The statements that import modules of TensorFlow and Keras.
    """

    tree: ast.Module
    uses: list[Use] = field(default_factory=list)
    others: list[tuple[int, str]] = field(default_factory=list)
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)


def read_program(source: str, is_namespace: Callable[[str], bool], others: set[str]) -> Program:
    """Find the names of TensorFlow in a program.

    Args:
        source: The program.
        is_namespace: Whether a name is a module: ``layers = tf.layers`` gives it another name.
        others: The packages around TensorFlow to look for.

    Raises:
        SyntaxError: It is no Python 3.
    """
    program = Program(ast.parse(source))
    reader = _Reader(program, is_namespace, others)
    reader.visit(program.tree)
    program.uses = sorted(set(program.uses))
    return program


def path_of(module: str) -> str | None:
    """Return the name of a module as ``tf…``, ``tfds…`` or ``tb…``; None for other modules."""
    for root in sorted(_ROOTS, key=len, reverse=True):
        if module == root or module.startswith(f"{root}."):
            return _ROOTS[root] + module.removeprefix(root)
    return None


class _Reader(ast.NodeVisitor):
    """Visits a program, and keeps what each name stands for in the scopes around."""

    def __init__(self, program: Program, is_namespace: Callable[[str], bool], others: set[str]) -> None:
        self._program = program
        self._is_namespace = is_namespace
        self._others = others
        self._scopes: list[tuple[ast.AST, Bindings]] = []

    def visit_Module(self, node: ast.Module) -> None:
        self._visit_scope(node, node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self._visit_scope(node, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        annotations = [argument.annotation for argument in _arguments(node.args)]
        outside = [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults, node.returns]
        self._visit_all([each for each in (*outside, *annotations) if each is not None])
        self._visit_scope(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all([each for each in (*node.args.defaults, *node.args.kw_defaults) if each is not None])
        self._visit_scope(node, [node.body])

    def _visit_comprehension(self, node: ast.AST) -> None:
        self._visit_scope(node, list(ast.iter_child_nodes(node)))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def visit_Import(self, node: ast.Import) -> None:
        paths = [path_of(alias.name) for alias in node.names]
        if any(paths):
            self._program.imports.append(node)
        for alias, path in zip(node.names, paths, strict=True):
            if path is not None and "." in path:
                self._program.uses.append(Use(node.lineno, path, is_module=True))
            self._note_other(node.lineno, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        path = None if node.level else path_of(node.module or "")
        if path is None:
            if not node.level:
                self._note_other(node.lineno, node.module or "")
            return
        self._program.imports.append(node)
        if "." in path:
            self._program.uses.append(Use(node.lineno, path, is_module=True))
        for alias in node.names:
            if alias.name != "*" and (path.count(".") == 0 or self._is_namespace(path)):
                self._program.uses.append(Use(node.lineno, f"{path}.{alias.name}"))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        if path is not None:
            self._program.uses.append(Use(node.lineno, path))
            return
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(func=ast.Name("getattr"), args=[module, ast.Constant(value=str(name))]):
                path = self._path(module)
                if path is not None:
                    self._program.uses.append(Use(node.lineno, f"{path}.{name}"))
        self.generic_visit(node)

    def _visit_all(self, nodes: list[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_scope(self, scope: ast.AST, body: Sequence[ast.AST]) -> None:
        self._scopes.append((scope, {}))
        self._scopes[-1][1].update(self._bindings(scope))
        for node in body:
            self.visit(node)
        self._scopes.pop()

    def _bindings(self, scope: ast.AST) -> Bindings:
        """Return what the names that a scope binds stand for: a path of TensorFlow, or None for others."""
        found: Bindings = self._scopes[-1][1]
        imported: set[str] = set()
        counts: dict[str, int] = {}
        for node in _of_scope(scope):
            for name, path in _imported(node):
                if path is not None or name not in imported:
                    found[name] = found.get(name) or path
                    imported.add(name)
            for name in _bound(node):
                counts[name] = counts.get(name, 0) + 1
                if name not in imported:
                    found[name] = None
        for node in _of_scope(scope):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if counts[name] == 1:
                    path = self._path(value)
                    if path is not None and name not in imported and self._is_namespace(path):
                        found[name] = path
        return found

    def _path(self, node: ast.AST) -> str | None:
        """Return the whole name that an expression such as ``tf.nn.relu`` stands for; None for others."""
        if isinstance(node, ast.Attribute):
            path = self._path(node.value)
            return None if path is None else f"{path}.{node.attr}"
        if isinstance(node, ast.Name):
            for depth, (scope, bindings) in enumerate(reversed(self._scopes)):
                # Functions do not see the names of the class that they are in.
                if node.id in bindings and not (depth and isinstance(scope, ast.ClassDef)):
                    return bindings[node.id]
        return None

    def _note_other(self, line: int, module: str) -> None:
        root = module.partition(".")[0]
        if root in self._others:
            self._program.others.append((line, root))


def _of_scope(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without what is in functions, classes and comprehensions in it."""
    stack = list(ast.iter_child_nodes(scope))
    while stack:
        node = stack.pop(0)
        yield node
        if not isinstance(node, (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)):
            stack[:0] = ast.iter_child_nodes(node)


def _imported(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Yield the names that an import binds, each with the path that it stands for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            whole = alias.name if alias.asname else alias.name.partition(".")[0]
            yield alias.asname or whole, path_of(whole)
    elif isinstance(node, ast.ImportFrom):
        path = None if node.level else path_of(node.module or "")
        for alias in node.names:
            yield alias.asname or alias.name, None if path is None else f"{path}.{alias.name}"


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds otherwise than by an import."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name


def _arguments(args: ast.arguments) -> list[ast.arg]:
    extra = [each for each in (args.vararg, args.kwarg) if each is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]
