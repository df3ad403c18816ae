"""Rewrite Python branches on traced values, as AutoGraph does, in a function that has failed to trace.

A function gets other code: each ``if`` and ``while`` calls `_branch_statements`, which does as Python does on
numbers of Python, and makes branches and loops of the program on values of a step. What code says ``return``
in a branch for is what comes after it in the other one. Loops with ``break``, ``continue`` or ``return`` stay
as they are, and so does what cannot be read as text.

Source: tensorflow/python/autograph/converters/{control_flow,return_statements,logical_expressions}.py.
"""

import ast
import copy
import gc
import inspect
import textwrap
import traceback
import types
from collections.abc import Iterable, Sequence
from typing import Any

import jax

_HELPERS = "muster_branches"
_NO_BODIES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_JUMPS = (ast.Return, ast.Break, ast.Continue)
_REWRITTEN: set[types.CodeType] = set()


def rewrite(error: BaseException, libraries: Sequence[str]) -> bool:
    """Rewrite the function in which Python has asked for the truth of a value of a step.

    Args:
        error: What it raised.
        libraries: The folders of code that is not the program's.

    Returns:
        Whether it was rewritten: the call may be tried again.
    """
    if not isinstance(error, jax.errors.TracerBoolConversionError):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    codes = [frame.f_code for frame in frames if not frame.f_code.co_filename.startswith(tuple(libraries))]
    if not codes:
        return False
    code = codes[-1]
    made = None if code in _REWRITTEN or not _functions_of(code) else _rewritten(code)
    if made is None:
        return False
    changed = {code: made}
    for outer in reversed(codes):  # a function that is made anew in each call is a constant of others
        if any(part in changed for part in outer.co_consts if isinstance(part, types.CodeType)):
            before = changed.get(outer, outer)
            parts = [_changed(part, changed) for part in before.co_consts]
            changed[outer] = before.replace(co_consts=tuple(parts))
    for old, new in changed.items():
        if old in _REWRITTEN or old is code:
            _REWRITTEN.add(new)
        for function in _functions_of(old):
            function.__code__ = new
    return True


def _changed(part: Any, changed: dict[types.CodeType, types.CodeType]) -> Any:
    return changed.get(part, part) if isinstance(part, types.CodeType) else part


def _functions_of(code: types.CodeType) -> list[types.FunctionType]:
    found = [each for each in gc.get_referrers(code) if isinstance(each, types.FunctionType)]
    return [each for each in found if each.__code__ is code]


def _rewritten(code: types.CodeType) -> types.CodeType | None:
    """Return other code for a function; None if it cannot be rewritten."""
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return None
    defined = tree.body[0] if tree.body else None
    if not isinstance(defined, ast.FunctionDef) or defined.name != code.co_name:
        return None
    rewriter = _Rewriter(defined, code)
    defined.decorator_list, defined.returns = [], None
    arguments = defined.args
    arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
    arguments.kw_defaults = [each and ast.Constant(None) for each in arguments.kw_defaults]
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        each.annotation = None
    defined.body = rewriter.function_body(defined.body)
    factory = ast.parse(f"def factory({', '.join(code.co_freevars)}):\n    pass").body[0]
    factory.body = [defined]  # type: ignore[attr-defined]
    module = ast.Module([factory], [])
    ast.increment_lineno(defined, first - 1)
    ast.fix_missing_locations(module)
    try:
        compiled = compile(module, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    made = _inner(_inner(compiled, "factory"), defined.name)
    if made is None or made.co_freevars != code.co_freevars:
        return None
    return made.replace(co_qualname=code.co_qualname)


def _inner(code: types.CodeType | None, name: str) -> types.CodeType | None:
    found = [] if code is None else [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return next((each for each in found if each.co_name == name), None)


class _Rewriter(ast.NodeTransformer):
    """Rewrites the body of a function, and not of those in it.

    Args:
        defined: The function.
        code: Its code.
    """

    def __init__(self, defined: ast.FunctionDef, code: types.CodeType) -> None:
        self._locals = set(code.co_varnames) | set(code.co_cellvars)
        self._parameters = {each.arg for each in ast.walk(defined.args) if isinstance(each, ast.arg)}
        self._first = code.co_varnames[0] if code.co_argcount else None
        self._bound: set[str] = set()
        self._count = 0

    def function_body(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements of the function."""
        has_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        documented = body[: int(has_text)]
        made = self._statements(_with_tails(body[len(documented) :]))
        begin = ast.parse(
            f"from muster_tensorflow.library.ops.control import _branch_statements as {_HELPERS}"
        ).body
        for name in sorted(self._bound - self._parameters):
            begin += ast.parse(f"{name} = {_HELPERS}.UNDEFINED").body
        return [*documented, *begin, *made]

    def _statements(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for each in statements:
            found = self.visit(each)
            made += found if isinstance(found, list) else [found]
        return made

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef  # type: ignore[assignment]

    def visit_If(self, node: ast.If) -> Any:
        returns = _always_returns(node.body) and _always_returns(node.orelse)
        if not returns and _jumps([*node.body, *node.orelse]):
            return self.generic_visit(node)
        if (changed := self._changed([*node.body, *node.orelse])) is None:
            return self.generic_visit(node)
        names, attributes = changed
        test: Any = self.visit(node.test)
        call, defined = self._call("chosen", [test], (node.body, node.orelse), names, attributes)
        last = ast.Return(call) if returns else ast.Expr(call)
        return [ast.copy_location(each, node) for each in (*defined, last)]

    def visit_While(self, node: ast.While) -> Any:
        if node.orelse or _jumps(node.body):
            return self.generic_visit(node)
        if (changed := self._changed(node.body)) is None:
            return self.generic_visit(node)
        test = _function_of(self.visit(node.test))
        call, defined = self._call("repeated", [test], (node.body,), *changed)
        return [ast.copy_location(each, node) for each in (*defined, ast.Expr(call))]

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        if _names_values(node):
            return node
        arguments = [node.test, _function_of(node.body), _function_of(node.orelse)]
        return ast.copy_location(_helper("chosen", arguments), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        if _names_values(node):
            return node
        first, *others = node.values
        name = "both" if isinstance(node.op, ast.And) else "either"
        return ast.copy_location(_helper(name, [first, *map(_function_of, others)]), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.copy_location(_helper("negated", [node.operand]), node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and self._first:
            node.args = [ast.Name("__class__", ast.Load()), ast.Name(self._first, ast.Load())]
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1 or _names_values(node):
            return node
        values = [node.left, *node.comparators]  # each twice; operations of a step may be computed twice
        parts = [
            ast.Compare(copy.deepcopy(left), [operator], [right])
            for left, operator, right in zip(values[:-1], node.ops, values[1:], strict=True)
        ]
        return ast.copy_location(_helper("both", [parts[0], *map(_function_of, parts[1:])]), node)

    def _changed(self, body: list[ast.stmt]) -> tuple[list[str], list[tuple[str, str]]] | None:
        """Return the names and the attributes of names that statements set; None for other kinds of names."""
        found = _Stored()
        for each in body:
            found.visit(each)
        if found.others or not found.names <= self._locals:
            return None
        return sorted(found.names), sorted(found.attributes)

    def _call(
        self,
        name: str,
        arguments: list[ast.expr],
        bodies: Sequence[list[ast.stmt]],
        names: list[str],
        attributes: list[tuple[str, str]],
    ) -> tuple[ast.expr, list[ast.stmt]]:
        """Return the call of a helper, and what defines the functions that it takes."""
        self._bound.update(names)
        self._count += 1
        number = self._count
        defined: list[ast.stmt] = []
        for place, body in enumerate(bodies):
            made = self._statements(body)
            defined.append(_function(f"muster_way_{number}_{place}", "", names, made or [ast.Pass()]))
        parts = [*names, *(f"{_HELPERS}.attribute({owner}, {key!r})" for owner, key in attributes)]
        listed = "".join(f"{part}, " for part in parts)
        defined.append(_function(f"muster_get_{number}", "", [], ast.parse(f"return ({listed})").body))
        setting = [f"{each} = muster_values[{place}]" for place, each in enumerate(names)]
        setting += [
            f"{_HELPERS}.set_attribute({owner}, {key!r}, muster_values[{place}])"
            for place, (owner, key) in enumerate(attributes, len(names))
        ]
        put = ast.parse("\n".join(setting) or "pass").body
        defined.append(_function(f"muster_put_{number}", "muster_values", names, put))
        ways = [f"muster_way_{number}_{place}" for place in range(len(bodies))]
        taken = [*ways, f"muster_get_{number}", f"muster_put_{number}"]
        return _helper(name, [*arguments, *(ast.Name(each, ast.Load()) for each in taken)]), defined


class _Stored(ast.NodeVisitor):
    """Collects what statements set.

    Attributes:
        names: Names.
        attributes: Attributes of names.
        others: Whether they set anything else that a way which is not taken must not set.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.others = False

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.names.add(node.id)
            self.others |= isinstance(node.ctx, ast.Del)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self.generic_visit(node)
        elif isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Store):
            self.attributes.add((node.value.id, node.attr))
        else:
            self.others = True

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.others |= not isinstance(node.ctx, ast.Load)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.others = True

    def visit_Import(self, node: ast.Import) -> None:
        self.others = True

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.names.add(node.name)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        pass

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.visit(node.iter)  # its targets are names of its own

    visit_Nonlocal = visit_ImportFrom = visit_Try = visit_Global  # type: ignore[assignment]
    visit_Yield = visit_YieldFrom = visit_Await = visit_Global  # type: ignore[assignment]
    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef  # type: ignore[assignment]


def _with_tails(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a function in which an ``if`` with a ``return`` is the last one.

    What comes after it is moved into its ways that do not return.
    """
    for place, each in enumerate(statements):
        rest = statements[place + 1 :]
        if isinstance(each, ast.If) and _returns(each):
            ways = [
                _with_tails(way if _always_returns(way) else [*way, *copy.deepcopy(rest)])
                for way in (each.body, each.orelse)
            ]
            body, orelse = (
                way if _always_returns(way) else [*way, ast.Return(ast.Constant(None))] for way in ways
            )
            return [*statements[:place], ast.copy_location(ast.If(each.test, body, orelse), each)]
    return statements


def _returns(node: ast.If) -> bool:
    """Return whether one of the ways returns, and no loop in it does."""
    return any(
        isinstance(each, ast.Return) or (isinstance(each, ast.If) and _returns(each))
        for each in (*node.body, *node.orelse)
    )


def _always_returns(body: list[ast.stmt]) -> bool:
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _always_returns(last.body) and _always_returns(last.orelse)
    return isinstance(last, ast.Return)


def _jumps(body: Iterable[ast.AST]) -> bool:
    """Return whether statements leave what is around them: a loop, or the function."""
    for each in body:
        if isinstance(each, ast.For | ast.While):
            inner: Iterable[ast.AST] = ast.walk(each)
            if any(isinstance(part, ast.Return) for part in inner):
                return True
        elif isinstance(each, _JUMPS):
            return True
        elif not isinstance(each, _NO_BODIES) and _jumps(ast.iter_child_nodes(each)):
            return True
    return False


def _names_values(node: ast.AST) -> bool:
    """Return whether an expression names values, or waits: these stay outside of functions of their own."""
    kinds = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
    return any(isinstance(each, kinds) for each in ast.walk(node))


def _helper(name: str, arguments: list[Any]) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name(_HELPERS, ast.Load()), name, ast.Load()), arguments, [])


def _function_of(value: Any) -> ast.expr:
    """Return an expression as a function without arguments."""
    made: Any = ast.parse("lambda: None", mode="eval").body
    made.body = value
    return made  # type: ignore[no-any-return]


def _function(name: str, parameter: str, names: list[str], body: list[ast.stmt]) -> ast.stmt:
    """Return a function in the function that changes names of that."""
    made: Any = ast.parse(f"def {name}({parameter}):\n    pass").body[0]
    made.body = [*([ast.Nonlocal(list(names))] if names else []), *body]
    return made  # type: ignore[no-any-return]
