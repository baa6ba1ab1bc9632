"""Run one piece of code the way a notebook runs a cell."""

import ast
import linecache
import os
import sys
import traceback
from types import CodeType
from typing import Any, Literal

FIRST_LINES = 4
LAST_LINES = 10
MOST_FRAMES = 2_000
ERROR_CHARS = 2_000
CELL_PREFIX = "<cell "
"""How the file names of cells begin."""

CellStatus = Literal["ok", "error", "oom"]


def run_cell(code: str, scope: dict[str, Any], number: int) -> tuple[CellStatus, str]:
    """Run code in a scope and print the value of a final expression. Returns the status and the shortened traceback."""
    name = f"{CELL_PREFIX}{number}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    try:
        body, final = _compile(code, name)
        exec(body, scope)  # noqa: S102  running code is the tool's purpose
        if final is not None:
            _show(eval(final, scope))  # noqa: S307
    except MemoryError as error:
        return "oom", _traceback_text(error)
    except BaseException as error:  # noqa: BLE001  SystemExit and KeyboardInterrupt end the cell, not the session
        return "error", _traceback_text(error)
    return "ok", ""


def _compile(code: str, name: str) -> tuple[CodeType, CodeType | None]:
    tree = ast.parse(code, name)
    final = None
    if tree.body and isinstance(last := tree.body[-1], ast.Expr):
        tree.body.pop()
        final = compile(ast.Expression(last.value), name, "eval", dont_inherit=True)
    return compile(tree, name, "exec", dont_inherit=True), final


def _show(value: object) -> None:
    if value is not None:
        print(repr(value))  # noqa: T201  as a notebook does


def _traceback_text(error: BaseException) -> str:
    """The traceback starting at the cell, shortened in the middle, without paths of this machine."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(CELL_PREFIX):
        trace = trace.tb_next
    try:
        formatted = traceback.TracebackException(type(error), error, trace, limit=MOST_FRAMES, compact=True)
        lines = _without_paths("".join(formatted.format())).splitlines()
    except Exception as broken:  # noqa: BLE001  the exception is untrusted and may raise when formatted
        lines = [f"{type(error).__name__} (and {type(broken).__name__} while it was being described)"]
    return _shorten_traceback(lines)


def _shorten_traceback(lines: list[str]) -> str:
    """The first and last lines of a traceback, at most ERROR_CHARS characters of its end."""
    if len(lines) > FIRST_LINES + LAST_LINES:
        lines = [*lines[:FIRST_LINES], "  …", *lines[-LAST_LINES:]]
    return "\n".join(lines)[-ERROR_CHARS:].encode("utf-8", "backslashreplace").decode()


def _without_paths(text: str) -> str:
    for root in sorted({*sys.path, *map(os.path.realpath, sys.path)}, key=len, reverse=True):
        if len(root) > 1:
            text = text.replace(root + os.sep, "")
    return text
