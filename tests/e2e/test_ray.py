"""Rollouts on a Ray cluster of two nodes give what rollouts in one process give."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from agentlearn.errors import ConfigError
from agentlearn.rollout.workers import WorkerNeeds
from tests.e2e.test_killed_processes import LEARN, rewards
from tests.support.command import AGENTLEARN, agentlearn

pytest.importorskip("ray", reason="needs the extra ray")
pytestmark = pytest.mark.slow


NODES = """
from ray.cluster_utils import Cluster
node = {"num_cpus": 2, "memory": 3_000_000_000, "object_store_memory": 80_000_000}
found = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
found.add_node(**node)
extra = found.add_node(**node)
print(found.address, flush=True)
input()
found.remove_node(extra, allow_graceful=False)
input()
found.shutdown()
"""


@dataclass(frozen=True)
class Cluster:
    """A cluster of three nodes with two CPUs each, in a process of its own: Ray uses the address of this machine."""

    process: "subprocess.Popen[str]"
    address: str

    def go_on(self) -> None:
        """Kill the third node; the second time, end the cluster."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    @classmethod
    @contextmanager
    def opened(cls) -> "Generator[Cluster]":
        """Start the cluster."""
        free = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [sys.executable, "-c", NODES], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=free
        ) as process:
            assert process.stdout is not None
            try:
                yield cls(process, process.stdout.readline().strip())
            finally:
                process.communicate("\n\n")


def workers() -> list[psutil.Process]:
    return [one for one in psutil.process_iter(["cmdline"]) if "ray::_Actor" in " ".join(one.info["cmdline"] or ())]


def killed_actors_and_a_killed_node_change_nothing(cluster: Cluster, tmp_path: Path) -> None:
    for name in ("here", "ray"):
        (tmp_path / name).mkdir()
    agentlearn(*LEARN, "--json", cwd=tmp_path / "here")
    command = [str(AGENTLEARN), *LEARN, "--workers", "3", "--ray", cluster.address, "--json"]
    rng, killed, nodes = random.Random(1), 0, 3
    with (tmp_path / "out").open("w+") as out, (tmp_path / "err").open("w+") as err:
        run = subprocess.Popen(command, cwd=tmp_path / "ray", stdout=out, stderr=err)
        while run.poll() is None:
            time.sleep(rng.uniform(0.5, 1.5))
            found = workers()
            if len(found) == 3 and killed < 3:
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(found).pid, signal.SIGKILL)
                    killed += 1
            elif killed == 3 and nodes == 3:
                cluster.go_on()
                nodes = 2
    assert run.returncode == 0, (tmp_path / "err").read_text()
    assert rewards(tmp_path / "ray") == rewards(tmp_path / "here")
    assert killed
    notes = " ".join(json.loads((tmp_path / "out").read_text())["notes"])  # stdout has nothing else
    assert "lost, and what was begun there was made again by another: " in notes


def what_cannot_be_scheduled_is_refused_at_once(cluster: Cluster, tmp_path: Path) -> None:
    from agentlearn.rollout.ray_cluster import open_ray_cluster

    async def ask(count: int, needs: WorkerNeeds) -> None:
        async with open_ray_cluster(cluster.address) as opened:
            await opened.check(count, needs)

    for count, needs in ((1, WorkerNeeds(64, 100)), (1, WorkerNeeds(1, 10_000_000)), (50, WorkerNeeds(1, 100))):
        with pytest.raises(ConfigError, match=r"the Ray cluster has room for \d of \d+ workers: each takes "):
            asyncio.run(ask(count, needs))


def an_agent_of_the_working_directory_travels(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from pydantic_ai import Agent\nfrom mine_too import DOUBLE\n\nagent = Agent(instructions=DOUBLE)\n"
    )
    (tmp_path / "mine_too.py").write_text("DOUBLE = 'Double it.'\n")
    (tmp_path / "tasks.csv").write_text("problem,answer\n" + "".join(f"Double {n}.,{2 * n}\n" for n in range(12)))
    told = ("--model", "sim:novice", "--reward", "number", "--k", "1", "--limit", "3")
    spread = ("--workers", "1", "--ray", cluster.address)
    done = agentlearn("eval", "mine:agent", "tasks.csv", *told, *spread, cwd=tmp_path)
    assert "lost" not in done.stdout


def test_no_answer_from_a_cluster_is_said(tmp_path: Path) -> None:
    done = agentlearn("learn", "math", "--ray", "auto", "--workers", "1", cwd=tmp_path, expect=2)
    assert "no Ray cluster answers at 'auto'" in done.stderr
    program = "import sys, agentlearn.rollout.workers, agentlearn.rollout.processes; print('ray' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )


def test_a_cluster(tmp_path: Path, subtests: pytest.Subtests) -> None:
    with Cluster.opened() as cluster:
        for check in (
            what_cannot_be_scheduled_is_refused_at_once,
            an_agent_of_the_working_directory_travels,
            killed_actors_and_a_killed_node_change_nothing,
        ):
            with subtests.test(check.__name__):
                check(cluster, tmp_path)
