"""Programs whose result is known because the same program was run before, so that it need not run again.

Only programs that print the same whenever they run: they import nothing but a few modules that compute, open nothing,
ask for no time, no random number and no address in memory, and ended well. Comments and spacing make no difference.
"""

import ast
import builtins
import warnings

from agentlearn.sandbox.protocol import CodeResult
from agentlearn.types.ids import content_hash

Past = tuple[str, ...]
"""Keys of the programs that an interpreter has run, oldest first; its variables depend on nothing else."""

_MODULES = frozenset(
    {"bisect", "cmath", "collections", "decimal", "fractions", "functools", "heapq", "itertools", "math", "operator"}
)
_NAMES = frozenset(dir(builtins)) - {
    *("breakpoint", "compile", "delattr", "dir", "eval", "exec", "exit", "getattr", "globals", "hash", "help", "id"),
    *("input", "locals", "memoryview", "object", "open", "quit", "setattr", "vars"),
}
"""Names of Python itself that a program may use."""
_ADDRESS = " at 0x"
_MOST_CHARS = 10_000
_MOST_RESULTS = 20_000


def program_key(code: str) -> str | None:
    """Return what is the same for two programs that do the same; None for one that may do another thing each time."""
    if len(code) > _MOST_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that mean nothing
            tree = ast.parse(code)
        return content_hash(ast.dump(tree)) if all(map(_computes, ast.walk(tree))) else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _computes(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return all(one.name in _MODULES for one in names)
        case ast.ImportFrom(module=module, level=level):
            return level == 0 and module in _MODULES
        case ast.Name(id=name):
            return not name.startswith("__") and (name in _NAMES or not hasattr(builtins, name))
        case ast.Attribute(attr=name):
            return not name.startswith("_")
        case _:
            return True


class KnownResults:
    """Results by the programs that led to them. The oldest are forgotten first."""

    def __init__(self) -> None:
        self._results = dict[Past, CodeResult]()

    def of(self, past: Past) -> CodeResult | None:
        """Return the result of the last of these programs, in an interpreter that ran those before it."""
        return self._results.get(past)

    def add(self, past: Past, result: CodeResult) -> None:
        """Keep a result of a program that ended well."""
        if _ADDRESS in result.stdout:
            return
        self._results[past] = result.model_copy(update={"reused": True, "seconds": 0.0})
        if len(self._results) > _MOST_RESULTS:
            del self._results[next(iter(self._results))]
