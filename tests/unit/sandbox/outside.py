"""Run programs in a plain Python with the sandbox's packages and without a sandbox, to compare their output.

Run as a module: it reads `{name: [cells]}` as JSON and prints `{name: [[output, last line of the error]]}`.
Usage: python -S -m tests.unit.sandbox.outside FOLDER, where FOLDER is an empty one for its packages and files.
"""

import ast
import importlib
import json
import os
import random
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("sympy", "numpy", "mpmath")
REPOSITORY = Path(__file__).parents[3]

Outcome = tuple[str, str]
"""Printed text, and the last line of the error."""


def run_outside(programs: Mapping[str, Sequence[str]], folder: Path) -> dict[str, list[Outcome]]:
    """The outcome of each cell of these programs in a plain Python that has only the sandbox's packages."""
    packages = folder / "packages"
    packages.mkdir()
    for name in PACKAGES:
        here = Path(importlib.import_module(name).__file__ or "").parent
        for found in (here, here.with_name(f"{name}.libs"), *here.parent.glob(f"{name}-*.dist-info")):
            if found.exists():
                (packages / found.name).symlink_to(found)
    ran = subprocess.run(
        [sys.executable, "-S", "-X", "utf8", "-m", "tests.unit.sandbox.outside", str(folder)],
        cwd=REPOSITORY,
        env={"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
        input=json.dumps({name: list(cells) for name, cells in programs.items()}),
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: [(out, error) for out, error in outcomes] for name, outcomes in json.loads(ran.stdout).items()}


def _run_all(folder: Path) -> None:
    programs: dict[str, list[str]] = json.load(sys.stdin)
    repository = str(REPOSITORY)
    sys.path[:] = ["", *(path for path in sys.path if path not in ("", repository)), str(folder / "packages")]
    for name in PACKAGES:
        __import__(name)
    import site

    site.setquit()
    site.sethelper()
    outcomes: dict[str, Any] = {}
    for number, (name, cells) in enumerate(programs.items()):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.mkdir(folder / str(number))  # noqa: PTH102
                os.chdir(folder / str(number))
                reply = json.dumps(_run_cells(cells))
                with os.fdopen(writing, "w") as pipe:
                    pipe.write(reply)
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            outcomes[name] = json.load(pipe)
        os.waitpid(pid, 0)
    json.dump(outcomes, sys.stdout)


def _run_cells(cells: list[str]) -> list[Outcome]:
    import linecache
    from types import ModuleType

    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    sys.set_int_max_str_digits(100_000)
    random.seed(1)
    with open("/dev/null") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    outcomes: list[Outcome] = []
    for number, code in enumerate(cells, 1):
        file = os.memfd_create("output")
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout = sys.stderr = os.fdopen(os.dup(file), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        name, error = f"<cell {number}>", ""
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        try:
            _run_cell(code, name, main.__dict__)
        except BaseException as raised:
            error = traceback.format_exception_only(raised)[-1].strip()
        sys.stdout.flush()
        outcomes.append((os.pread(file, 1 << 24, 0).decode(), error))
    return outcomes


def _run_cell(code: str, name: str, scope: dict[str, Any]) -> None:
    body = ast.parse(code, name)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    exec(compile(body, name, "exec", dont_inherit=True), scope)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), scope)
        if value is not None:
            print(repr(value))


if __name__ == "__main__":
    _run_all(Path(sys.argv[1]))
