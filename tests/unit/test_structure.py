"""The structure that docs/decisions/0022 promises: few packages, one home per public name, no import cycles."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "agentlearn": ROOT,
    "agentlearn_math": ROOT / "domains",
    "agentlearn_web": ROOT / "domains",
    "agentlearn_evals": ROOT / "evals",
}


@cache
def modules() -> dict[str, ast.Module]:
    """Every shipped module by its dotted name; a package stands for its `__init__`."""
    found: dict[str, ast.Module] = {}
    for package, folder in PACKAGES.items():
        for file in sorted((folder / package).rglob("*.py")):
            name = ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
            found[name] = ast.parse(file.read_text(encoding="utf-8"))
    return found


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """The shipped modules that a module imports at its top level, those for type checking included."""
    statements = [*tree.body, *(one for node in tree.body if isinstance(node, ast.If) for one in node.body)]
    for node in statements:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules() else node.module


def test_the_top_level_has_at_most_32_entries() -> None:
    entries = [
        one.name
        for one in (ROOT / "agentlearn").iterdir()
        if not one.name.startswith(("_", ".")) and (one.is_dir() or one.suffix == ".py")
    ]
    assert len(entries) <= 32, sorted(entries)


def test_every_public_class_and_type_alias_is_defined_once() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for name, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(name)
            elif isinstance(node, ast.Assign) and is_type_alias(node.targets[0]):
                homes[ast.unparse(node.targets[0])].append(name)
    assert {name: found for name, found in homes.items() if len(found) > 1 and not name.startswith("_")} == {}


def is_type_alias(target: ast.expr) -> bool:
    """Whether a module assigns to a name in CamelCase."""
    return isinstance(target, ast.Name) and len(target.id) > 1 and target.id[0].isupper() and not target.id.isupper()


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name: {one for one in imported_modules(tree) if one in modules()} for name, tree in modules().items()}
    left = dict(graph)
    while removable := [name for name, targets in left.items() if not targets & left.keys() - {name}]:
        for name in removable:
            del left[name]
    assert left.keys() == set(), "on a circle, or above one"


PRINTING = {
    "agentlearn.text.printing": "the module that prints",
    "agentlearn.cli.output": "makes the console, from the guarded streams, and flushes what is left at the end",
    "agentlearn.cli.stop_signals": "replaces a stream that nobody reads any more",
    "agentlearn.cli.machine": "keeps what a check prints from the report",
    "agentlearn.plugins": "sends to stderr what a plug-in prints",
    "agentlearn.cli.options": "asks whether stdin is a terminal",
    "agentlearn.sandbox.inside.session": "runs in the sandbox: its output is a result",
    "agentlearn_web.reading.worker": "a process of its own: its output is a result",
}
"""Modules that may name a stream of the process, or print, with the reason."""
_STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
_PRINTERS = {"print", "input", "pprint", "print_exc", "print_exception", "print_stack", "basicConfig", "StreamHandler"}


def test_only_one_module_prints() -> None:
    found = {name for name, tree in modules().items() if any(prints(node) for node in ast.walk(tree))}
    assert found - PRINTING.keys() == set()


def prints(node: ast.AST) -> bool:
    """Whether a piece of code prints, makes a console, or takes a stream of the process."""
    match node:
        case ast.Attribute(value=ast.Name(id="sys"), attr=attribute):
            return attribute in _STREAMS
        case ast.ImportFrom(module="sys", names=names):
            return any(one.name in _STREAMS for one in names)
        case ast.ImportFrom(module="rich", names=names):
            return any(one.name in {"print", "get_console"} for one in names)
        case ast.Call(func=ast.Name(id=called)):
            return called in _PRINTERS or called == "Console"
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=called)):
            return owner in {"logging", "traceback", "pprint", "rich", "console"} and called in {*_PRINTERS, "Console"}
        case _:
            return False
