"""`agentlearn doctor` on machines where something is missing or broken: a line for each fault, no traceback."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.broken_packages import BROKEN, broken_packages
from tests.support.command import AGENTLEARN

pytestmark = pytest.mark.slow


def doctor(cwd: Path, *, env: Mapping[str, str] | None = None, before: str = "") -> tuple[int, str]:
    """Exit status and output of the doctor, in a shell that first runs `before`."""
    line = f"{before}\nexec {AGENTLEARN} doctor 2>&1"
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(["bash", "-c", line], cwd=cwd, env=environment, capture_output=True, check=False, timeout=300)
    return done.returncode, done.stdout.decode()


def may_unshare() -> bool:
    return subprocess.run(["unshare", "-mn", "true"], capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not may_unshare(), reason="this user cannot change mounts")


@pytest.mark.parametrize(
    ("before", "env", "broken"),
    [
        ("mkdir gone; cd gone; rmdir ../gone", {"HOME": "/proc/nothing", "PYTHONIOENCODING": "ascii"}, ()),
        ("touch .agentlearn", {"TMPDIR": "/nonexistent"}, ()),
        ("mkdir .agentlearn; head -c 5000 /dev/urandom > .agentlearn/store.duckdb", {}, ("store",)),
    ],
    ids=["no folders", "no temporary folder", "damaged store"],
)
def test_a_machine_with_a_fault_gives_a_line(
    tmp_path: Path, before: str, env: dict[str, str], broken: tuple[str, ...]
) -> None:
    status, printed = doctor(tmp_path, env=env, before=before)
    assert "Traceback" not in printed
    lines = [line for line in printed.splitlines() if "BROKEN" in line]
    assert len(lines) == len(broken), printed
    assert all(what in line for what, line in zip(broken, lines, strict=True))
    assert status == (1 if broken else 0)


@needs_mounts
def test_a_machine_without_proc_and_without_a_network_gives_no_traceback(tmp_path: Path) -> None:
    script = tmp_path / "without"
    script.write_text(f"umount -l /proc\nexec {AGENTLEARN} doctor\n")
    done = subprocess.run(["unshare", "-mn", "bash", str(script)], cwd=tmp_path, capture_output=True, check=False)
    assert b"Traceback" not in done.stdout + done.stderr
    assert b"model sim:novice" in done.stdout


def test_broken_plugins_are_a_line_each_and_harm_no_run(tmp_path: Path) -> None:
    packages = broken_packages(tmp_path / "packages")
    path = os.pathsep.join([str(packages), *filter(None, [os.environ.get("PYTHONPATH")])])
    status, printed = doctor(tmp_path, env={"PYTHONPATH": path})
    assert status == 1
    assert "Traceback" not in printed
    assert "still checking: command hang" in printed
    for what in ("command hang", "domain shared", "command shared", "model service shared"):
        assert f"BROKEN   {what} " in printed
    for what in ("model service openai", "command learn", "domain math", "package no-text", "package no-sign"):
        assert f"note     {what} " in printed
    for name in BROKEN:
        for kind in ("command", "domain", "model service"):
            assert f"BROKEN   {kind} {name} " in printed
    assert "ok       domain math" in printed
