"""The disk is full, files may not grow, or there are no descriptors: one sentence, and the run can be resumed."""

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import AGENTLEARN, agentlearn_here

pytestmark = pytest.mark.slow

LEARN = ("learn", "math", "--model", "sim:novice", "--limit", "4", "--epochs", "1", "--no-eval", "--seed", "3")


def limited(cwd: Path, limit: str) -> list[str]:
    """The lines that the command prints in a shell with a limit."""
    line = f"ulimit {limit}; exec {AGENTLEARN} {shlex.join(LEARN)} 2>&1"
    done = subprocess.run(["bash", "-c", line], cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    return done.stdout.splitlines()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user cannot mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_run_on_a_full_disk_goes_on_when_there_is_room(tmp_path: Path, disk: Path) -> None:
    sentence, last = limited(disk, "-c 0")[-2:]
    assert sentence.startswith("agentlearn: ")
    assert "No space left on device" in sentence
    _, found, command = last.partition("  agentlearn ")
    assert found, last
    subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
    resumed = json.loads(agentlearn_here(*shlex.split(command), "--json", cwd=disk).stdout)
    plain = json.loads(agentlearn_here(*LEARN, "--json", cwd=tmp_path).stdout)
    assert resumed["library"] == plain["library"]


def test_a_limit_of_the_machine_is_one_sentence(tmp_path: Path) -> None:
    (said,) = (line for line in limited(tmp_path, "-n 60") if line.startswith("agentlearn: "))
    assert "(ulimit -n)" in said
