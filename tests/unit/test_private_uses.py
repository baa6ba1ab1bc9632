"""Nothing private of a dependency is imported, read or overridden: such names change without notice."""

import ast
import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cases import cases

ROOT = Path(__file__).parents[2]
OURS = {"agentlearn", "agentlearn_adapters", "agentlearn_demo", "agentlearn_evals", "agentlearn_math", "agentlearn_web"}
ALLOWED = {
    ("agentlearn.plugins", "getattr(package, '_path', '')")  # of importlib.metadata
}
"""Members of the standard library, of which the text does not show that they are."""
DOCUMENTED = {"_asdict", "_fields", "_make", "_replace"}
"""Of named tuples and of `ast` nodes."""


class Client:
    """A class of a dependency, for the planted sources."""

    def __init__(self) -> None:
        self._url = ""

    def _post(self) -> None: ...


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def foreign(dotted: str) -> bool:
    return bool(dotted) and dotted.partition(".")[0] not in {*OURS, *sys.stdlib_module_names}


def private_uses(text: str) -> Iterator[str]:
    """Names of what a module uses of dependencies and they call private, as it writes them."""
    tree, imports = ast.parse(text), dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {one.asname or one.name.partition(".")[0]: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            imports |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    yield from (name for name in imports.values() if foreign(name) and any(map(private, name.split("."))))
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    own = {name for kind in classes for name in members(kind)}
    for node in ast.walk(tree):
        name = node.attr if isinstance(node, ast.Attribute) else ""
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"getattr", "setattr", "attrgetter"}:
            name = next((one.value for one in node.args if isinstance(one, ast.Constant)), "")
        if isinstance(name, str) and private(name) and name not in own | DOCUMENTED:
            start = ast.unparse(node).partition(".")[0]
            if start not in {"self", "cls"} and foreign(imports.get(start, "?")):
                yield ast.unparse(node)
    for kind in classes:
        bases = [ast.unparse(base).partition("[")[0] for base in kind.bases]
        dotted = [f"{imports.get(base.partition('.')[0], '')}{base[len(base.partition('.')[0]) :]}" for base in bases]
        for base in filter(foreign, dotted):
            place, _, name = base.rpartition(".")
            with contextlib.suppress(ImportError):  # it is not installed
                known = getattr(importlib.import_module(place), name)
                theirs = {one for parent in known.__mro__ if foreign(parent.__module__) for one in vars(parent)}
                yield from (f"{kind.name}.{one}" for one in members(kind) if one in theirs)
            used = [node for node in ast.walk(kind) if isinstance(node, ast.Attribute) and private(node.attr)]
            selves = [one for one in used if ast.unparse(one.value) in {"self", "cls", "super()"}]
            yield from (ast.unparse(one) for one in selves if one.attr not in own | DOCUMENTED)


def members(kind: ast.ClassDef) -> set[str]:
    """The private members that a class defines in its body or sets in its methods."""
    names = {one.name for one in kind.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(kind):
        if isinstance(getattr(node, "ctx", None), ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else getattr(node, "attr", ""))
    return set(filter(private, names))


@pytest.mark.slow
def test_nothing_private_of_a_dependency_is_used() -> None:
    found = list[str]()
    for root in (ROOT, ROOT / "domains", ROOT / "evals"):
        for path in (one for package in OURS for one in (root / package).rglob("*.py")):
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            uses = set(private_uses(path.read_text(encoding="utf-8")))
            found += [f"{module}: {use}" for use in sorted(uses) if (module, use) not in ALLOWED]
    assert not found, "use the public interface instead"


def test_a_planted_use_is_found_and_what_is_ours_or_public_is_not(subtests: pytest.Subtests) -> None:
    head = f"import {__name__} as dependency, pydantic\nfrom {__name__} import Client\n"
    for expected in (True, False):
        for source in cases(__file__, "planted" if expected else "allowed"):
            with subtests.test(source):
                assert bool(list(private_uses(head + source))) == expected
