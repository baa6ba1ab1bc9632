"""Finds where sources use what a dependency calls private: a name that starts with one underscore.

The sources are only read. Dependencies are imported for their base classes, where they are installed. The standard
library is no dependency here: it comes with Python.
"""

import ast
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

_PUBLIC = frozenset({"_asdict", "_fields", "_make", "_replace"})
"""Documented members of named tuples and of `ast` nodes."""
_TAKES_A_MEMBER = frozenset({"attrgetter", "delattr", "getattr", "hasattr", "methodcaller", "setattr", "__setattr__"})
_TAKES_A_MODULE = frozenset({"find_spec", "import_module", "__import__"})


@dataclass(frozen=True, order=True)
class PrivateUse:
    """One use of a private name of a dependency."""

    module: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.name}"


def private_uses(sources: Mapping[str, str]) -> list[PrivateUse]:
    """Every use of a private name of a dependency in these modules, given as text by their dotted names."""
    modules = {name: _Module(name, ast.parse(text)) for name, text in sources.items()}
    found: set[PrivateUse] = set()
    for module in modules.values():
        found.update(_shown_by_the_text(module, modules))
        for one in module.classes:
            found.update(_inherited(one, modules))
    return sorted(found)


@dataclass(eq=False)
class _Module:
    name: str
    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict[str, str])
    """The dotted name of what each imported name stands for."""
    classes: "list[_Class]" = field(default_factory=list["_Class"])

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    top = one.name.partition(".")[0]
                    self.imports[one.asname or top] = one.name if one.asname else top
            elif isinstance(node, ast.ImportFrom):
                self.imports |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
            elif isinstance(node, ast.ClassDef):
                self.classes.append(_Class(self, node))

    def dotted(self, node: ast.AST) -> str:
        """What an expression of names and dots stands for; empty where it starts with no imported name."""
        if isinstance(node, ast.Attribute):
            start = self.dotted(node.value)
            return start and f"{start}.{node.attr}"
        if isinstance(node, ast.Subscript):  # Base[int]
            return self.dotted(node.value)
        return self.imports.get(node.id, "") if isinstance(node, ast.Name) else ""

    @cached_property
    def members(self) -> set[str]:
        """The private members of all classes of the module."""
        return {name for one in self.classes for name in one.members}


@dataclass(eq=False)
class _Class:
    module: _Module
    node: ast.ClassDef

    @cached_property
    def members(self) -> dict[str, int]:
        """The private members that the class defines or sets, with their lines."""
        return _defined(self.node)

    def family(self, modules: Mapping[str, _Module]) -> "tuple[list[_Class], list[type]]":
        """The class and its bases: those of these modules, and those of dependencies."""
        ours, theirs = [self], list[type]()
        for one in ours:
            for base in one.node.bases:
                known = _class_named(one.module, base, modules)
                if isinstance(known, _Class) and known not in ours:
                    ours.append(known)
                elif isinstance(known, type):
                    theirs += [kind for kind in known.__mro__ if not _is_standard(kind.__module__)]
        return ours, theirs


def _class_named(module: _Module, base: ast.expr, modules: Mapping[str, _Module]) -> "_Class | type | None":
    """What stands in the brackets of a class: a class of these modules, a class of a dependency, or neither."""
    of_module = {one.node.name: one for one in module.classes}
    if isinstance(base, ast.Subscript):
        base = base.value
    if isinstance(base, ast.Name) and base.id in of_module:
        return of_module[base.id]
    dotted = module.dotted(base)
    place, _, name = dotted.rpartition(".")
    if _is_ours(dotted, modules):  # a package may hand on a class of one of its modules, so the last name decides
        top = dotted.partition(".")[0]
        named = [one for key, kept in modules.items() if key.partition(".")[0] == top for one in kept.classes]
        at_the_place = [one for one in named if one.node.name == name and one.module.name == place]
        return next(iter([*at_the_place, *(one for one in named if one.node.name == name)]), None)
    return _imported(dotted) if dotted and not _is_standard(dotted) else None


@cache
def _imported(dotted: str) -> type | None:
    """The class of that name; None for something else, or where its package is not installed."""
    place, _, name = dotted.rpartition(".")
    try:
        kind = getattr(importlib.import_module(place), name, None) if place else None
    except ImportError:
        return None
    return kind if isinstance(kind, type) else None


@cache
def _members_of(kind: type) -> frozenset[str]:
    """The private members of a dependency's class: those it defines, and those that its methods set."""
    names = {*vars(kind), *vars(kind).get("__annotations__", ())}
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, SyntaxError, TypeError):  # it is written in C, or made while the program runs
        node = None
    return frozenset(filter(_is_private, names)) | frozenset(_defined(node) if isinstance(node, ast.ClassDef) else ())


def _inherited(one: _Class, modules: Mapping[str, _Module]) -> Iterator[PrivateUse]:
    """Private members of a dependency's class that a subclass overrides or uses."""
    ours, bases = one.family(modules)
    if not bases:
        return
    theirs = {name: kind.__qualname__ for kind in reversed(bases) for name in _members_of(kind)}
    members = {name for kind in ours for name in kind.members}
    for kind in ours:
        for name, line in kind.members.items():
            if name in theirs:
                yield PrivateUse(kind.module.name, line, f"{theirs[name]}.{name}")
        for node in _own_nodes(kind.node):
            of, name = _member(node)
            if of is not None and _is_self(of) and _is_private(name) and name not in members:
                yield PrivateUse(kind.module.name, node.lineno, f"{theirs.get(name, bases[0].__qualname__)}.{name}")


def _shown_by_the_text(module: _Module, modules: Mapping[str, _Module]) -> Iterator[PrivateUse]:
    """Imports of private names, and private members of objects of which no class is in the same module."""
    for node in ast.walk(module.tree):
        imported = list[str]()
        if isinstance(node, ast.Import):
            imported = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Call) and _called(node) in _TAKES_A_MODULE:
            imported = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        for name in imported:
            if _is_foreign(name, modules) and any(map(_is_private, name.split("."))):
                yield PrivateUse(module.name, node.lineno, name)
        of, name = _member(node)
        if of is None or not _is_private(name) or name in _PUBLIC or _is_self(of):
            continue
        known = module.dotted(of)
        if _is_foreign(known, modules) or (not known and name not in module.members):
            yield PrivateUse(module.name, node.lineno, f"{ast.unparse(of)}.{name}")


def _member(node: ast.AST) -> tuple[ast.expr | None, str]:
    """The object and the name of a member that the node reads, sets or deletes; None where it does not."""
    if isinstance(node, ast.Attribute):
        return node.value, node.attr
    if isinstance(node, ast.Call) and _called(node) in _TAKES_A_MEMBER:
        names = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        return node.args[0] if names else None, next(filter(_is_private, names), "")
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        kept = node.value
        if isinstance(kept, ast.Attribute) and kept.attr == "__dict__":
            return kept.value, str(node.slice.value)
        if isinstance(kept, ast.Call) and _called(kept) == "vars" and kept.args:
            return kept.args[0], str(node.slice.value)
    return None, ""


def _defined(kind: ast.ClassDef) -> dict[str, int]:
    """The private members that a class defines in its body or sets in its methods, with their lines."""
    names: dict[str, int] = {}
    for part in kind.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names[part.name] = part.lineno
        elif isinstance(part, ast.Assign | ast.AnnAssign):
            for target in part.targets if isinstance(part, ast.Assign) else [part.target]:
                names |= {one.id: one.lineno for one in ast.walk(target) if isinstance(one, ast.Name)}
    for node in _own_nodes(kind):
        of, name = _member(node)
        sets = isinstance(getattr(node, "ctx", None), ast.Store) or _called(node) in {"setattr", "__setattr__"}
        if of is not None and sets and _is_self(of):
            names.setdefault(name, node.lineno)
    return {name: line for name, line in names.items() if _is_private(name)}


def _own_nodes(kind: ast.ClassDef) -> Iterator[ast.expr]:
    """The expressions of a class, without those of classes inside it."""
    left = list(ast.iter_child_nodes(kind))
    while left:
        node = left.pop()
        if isinstance(node, ast.expr):
            yield node
        if not isinstance(node, ast.ClassDef):
            left += ast.iter_child_nodes(node)


def _called(node: ast.AST) -> str:
    """The last name of what a call calls; empty for what is no call."""
    called = node.func if isinstance(node, ast.Call) else None
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _is_self(node: ast.AST) -> bool:
    """Whether an expression is the object itself, its class, or `super()`."""
    if isinstance(node, ast.Attribute) and node.attr == "__class__":
        return _is_self(node.value)
    if isinstance(node, ast.Call) and _called(node) in {"super", "type"}:
        return not node.args or _is_self(node.args[0])
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def _is_standard(dotted: str) -> bool:
    return dotted.partition(".")[0] in sys.stdlib_module_names


def _is_ours(dotted: str, modules: Mapping[str, _Module]) -> bool:
    return dotted.partition(".")[0] in {name.partition(".")[0] for name in modules}


def _is_foreign(dotted: str, modules: Mapping[str, _Module]) -> bool:
    return bool(dotted) and not _is_standard(dotted) and not _is_ours(dotted, modules)
