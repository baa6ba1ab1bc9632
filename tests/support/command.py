"""Run the command line as a child process or in this one, for tests of the whole program."""

import io
import json
import os
import subprocess
import sysconfig
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import run

AGENTLEARN = Path(sysconfig.get_path("scripts")) / "agentlearn"


def agentlearn(
    *arguments: str, cwd: Path, expect: int = 0, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one command until it ends. Fail if its exit status is not `expect`."""
    done = subprocess.run(
        [str(AGENTLEARN), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=1200,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
        check=False,
    )
    assert done.returncode == expect, done.stderr
    return done


def agentlearn_here(*arguments: str, cwd: Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Run one command in this process, which saves the two seconds in which a new process imports everything."""
    out, err = io.StringIO(), io.StringIO()
    with chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        status = run(arguments)
    assert status == expect, err.getvalue()
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def learn(cwd: Path, *options: str, here: bool = False) -> dict[str, Any]:
    """Return the report of `learn math --json`. The default model is the simulated one. here: in this process."""
    model = () if "--model" in options else ("--model", "sim:novice")
    done = (agentlearn_here if here else agentlearn)("learn", "math", "--json", *model, *options, cwd=cwd)
    assert done.stdout.count("\n") == 1, "exactly one JSON object on stdout"
    return json.loads(done.stdout)


def output(capsys: pytest.CaptureFixture[str], store: Path, *arguments: str) -> str:
    """What one command prints that runs in this process on a store."""
    capsys.readouterr()
    assert run([*arguments, "--store", str(store)]) == 0
    return capsys.readouterr().out


def result(capsys: pytest.CaptureFixture[str], store: Path, *arguments: str) -> Any:
    """The JSON that it prints."""
    return json.loads(output(capsys, store, *arguments, "--json"))
