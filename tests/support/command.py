"""Run the command line as a child process, for tests of the whole program."""

import json
import os
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def learn(cwd: Path, *options: str) -> dict[str, Any]:
    """Return the report of `learn math --json`. The default model is the simulated one."""
    model = () if "--model" in options else ("--model", "sim:novice")
    done = agentlearn("learn", "math", "--json", *model, *options, cwd=cwd)
    assert done.stdout.count("\n") == 1, "exactly one JSON object on stdout"
    return json.loads(done.stdout)
