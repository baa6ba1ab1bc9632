"""`agentlearn doctor` on machines where something is missing or broken: a line for each fault, no traceback."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.broken_packages import BROKEN, broken_packages
from tests.support.command import AGENTLEARN

pytestmark = pytest.mark.slow


def doctor(cwd: Path, *, env: Mapping[str, str] | None = None, before: str = "", prefix: str = "") -> tuple[int, str]:
    """Exit status and output of the doctor, in a shell that first runs `before`."""
    line = f"{before}\nexec {prefix} {AGENTLEARN} doctor 2>&1"
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(["bash", "-c", line], cwd=cwd, env=environment, capture_output=True, check=False, timeout=300)
    return done.returncode, done.stdout.decode()


def may_unshare(what: str) -> bool:
    return subprocess.run(["unshare", *what.split(), "true"], capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not may_unshare("-m"), reason="this user cannot change mounts")
needs_namespace = pytest.mark.skipif(not may_unshare("-rn"), reason="this user cannot leave the network")


@pytest.mark.parametrize(
    ("before", "env", "broken"),
    [
        ("", {"HOME": "/proc/nothing"}, ()),
        ("", {"TMPDIR": "/nonexistent"}, ()),
        ("", {"PYTHONIOENCODING": "ascii"}, ()),
        ("mkdir gone; cd gone; rmdir ../gone", {}, ()),
        ("mkdir .agentlearn; head -c 5000 /dev/urandom > .agentlearn/store.duckdb", {}, ("store",)),
        ("touch .agentlearn", {}, ()),
    ],
    ids=["bad home", "no tmpdir", "ascii", "no cwd", "damaged", "file"],
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
@pytest.mark.parametrize("missing", ["/proc", "/dev/shm"])
def test_a_machine_without_a_system_folder_gives_no_traceback(tmp_path: Path, missing: str) -> None:
    script = tmp_path / "without"
    script.write_text(f"umount -l {missing}\nexec {AGENTLEARN} doctor\n")
    done = subprocess.run(["unshare", "-m", "bash", str(script)], cwd=tmp_path, capture_output=True, check=False)
    assert b"Traceback" not in done.stdout + done.stderr
    assert b"model sim:novice" in done.stdout


@needs_namespace
def test_a_machine_without_a_network_gives_no_traceback(tmp_path: Path) -> None:
    status, printed = doctor(tmp_path, prefix="unshare -rn")
    assert "Traceback" not in printed
    assert status in {0, 1}


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
    done = subprocess.run(
        [str(AGENTLEARN), "solve", "math", "1+1", "--model", "sim:novice", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
