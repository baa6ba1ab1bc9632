"""Finds where sources use what a dependency calls private: a name that starts with one underscore.

The sources are only read. Dependencies are imported for their base classes, where they are installed. The standard
library is no dependency here: it comes with Python.
"""

import ast
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
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
    ours = _Sources([_Module(name, ast.parse(text)) for name, text in sources.items()])
    found: set[PrivateUse] = set()
    for module in ours.modules:
        found.update(_shown_by_the_text(module, ours))
        for one in module.classes:
            found.update(_inherited(one, ours))
    return sorted(found)


@dataclass(eq=False)
class _Module:
    name: str
    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict[str, str])
    """The dotted name of what each imported name stands for."""
    classes: "list[_Class]" = field(default_factory=list["_Class"])

    def __post_init__(self) -> None:
        self.nodes = list(ast.walk(self.tree))
        for node in self.nodes:
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

    @cached_property
    def used(self) -> list[tuple[str, int]]:
        """The private members that the class reads, sets or deletes of itself, with their lines."""
        members = [(*_member(node), node.lineno) for node in _own_nodes(self.node)]
        return [(name, line) for of, name, line in members if of is not None and _is_self(of) and _is_private(name)]


class _Sources:
    """All modules that are searched."""

    def __init__(self, modules: Sequence[_Module]) -> None:
        self.modules = modules
        self._tops = {one.name.partition(".")[0] for one in modules}
        self._classes: dict[str, list[_Class]] = {}
        for module in modules:
            for one in module.classes:
                self._classes.setdefault(one.node.name, []).append(one)

    def is_foreign(self, dotted: str) -> bool:
        """Whether a dotted name is that of a dependency."""
        return bool(dotted) and not _is_standard(dotted) and dotted.partition(".")[0] not in self._tops

    def family(self, of: _Class) -> tuple[list[_Class], list[str]]:
        """The class and its bases: those of these modules, and the names of those of dependencies."""
        ours, foreign = [of], list[str]()
        for one in ours:
            for base in one.node.bases:
                known = self._class_named(one.module, base.value if isinstance(base, ast.Subscript) else base)
                if isinstance(known, str):
                    foreign.append(known)
                elif known is not None and known not in ours:
                    ours.append(known)
        return ours, foreign

    def _class_named(self, module: _Module, base: ast.expr) -> _Class | str | None:
        dotted = f"{module.name}.{base.id}" if isinstance(base, ast.Name) else ""
        dotted = module.dotted(base) or dotted
        place, _, name = dotted.rpartition(".")
        if self.is_foreign(dotted):
            return dotted
        # A package may hand on a class of one of its modules. So the name decides where the place does not.
        known = self._classes.get(name, [])
        return next((one for one in known if one.module.name == place), known[0] if known else None)


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


def _inherited(one: _Class, sources: _Sources) -> Iterator[PrivateUse]:
    """Private members of a dependency's class that a subclass overrides or uses."""
    ours, foreign = sources.family(one)
    members = {name for kind in ours for name in kind.members}
    if not foreign or not (members or any(kind.used for kind in ours)):
        return
    bases = [base for name in foreign if (kind := _imported(name)) for base in kind.__mro__]
    theirs = {
        name: base.__qualname__
        for base in reversed(bases)
        if not _is_standard(base.__module__)
        for name in _members_of(base)
    }
    for kind in ours:
        for name, line in kind.members.items():
            if name in theirs:
                yield PrivateUse(kind.module.name, line, f"{theirs[name]}.{name}")
        for name, line in kind.used:
            if name not in members:
                yield PrivateUse(kind.module.name, line, f"{theirs.get(name, foreign[0])}.{name}")


def _shown_by_the_text(module: _Module, sources: _Sources) -> Iterator[PrivateUse]:
    """Imports of private names, and private members of objects of which no class is in the same module."""
    for node in module.nodes:
        line: int = getattr(node, "lineno", 0)
        imported = list[str]()
        if isinstance(node, ast.Import):
            imported = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Call) and _called(node) in _TAKES_A_MODULE:
            imported = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        for name in imported:
            if sources.is_foreign(name) and any(map(_is_private, name.split("."))):
                yield PrivateUse(module.name, line, name)
        of, name = _member(node)
        if of is None or not _is_private(name) or name in _PUBLIC or _is_self(of):
            continue
        known = module.dotted(of)
        if sources.is_foreign(known) or (not known and name not in module.members):
            yield PrivateUse(module.name, line, f"{ast.unparse(of)}.{name}")


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
