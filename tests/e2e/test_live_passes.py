"""`agentlearn live` in processes of its own, ended by signals and by kill -9 in the middle of a pass."""

import json
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from agentlearn import Recorder
from tests.support.command import AGENTLEARN, agentlearn_here
from tests.support.openai_script import Reply, Request, Solver
from tests.support.openai_stub import OpenAIStub

pytestmark = pytest.mark.slow


class Held:
    """Answers three calls, and then none until it is let go on."""

    def __init__(self) -> None:
        self.asked, self.go_on, self.number = threading.Event(), threading.Event(), 0
        self.solver, self.lock = Solver(), threading.Lock()

    def __call__(self, request: Request) -> Reply:
        with self.lock:
            self.number += 1
            held = self.number > 3
        if held:
            self.asked.set()
            self.go_on.wait(60)
        return self.solver(request)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_pass_that_a_signal_ends_goes_on_at_the_next_start(tmp_path: Path, number: int, status: int) -> None:
    with Recorder("support", tmp_path / ".agentlearn") as recorder:
        for question in range(4):
            for reward in (0, 1):
                chat = [{"role": "user", "content": f"Is {question} even?"}, {"role": "assistant", "content": "Yes."}]
                recorder.feedback_sync(recorder.record_sync(chat), reward=(reward, f"because {reward}"))
    held = Held()
    with OpenAIStub(held) as stub:
        options = ["support", "--model", f"{stub.base_url}#stub", "--concurrency", "1"]
        command = [str(AGENTLEARN), "live", *options, "--every", "1h"]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
            assert held.asked.wait(120)
            second = agentlearn_here("live", *options, "--once", cwd=tmp_path, expect=2)
            assert f"process {running.pid} on " in second.stderr
            running.send_signal(number)
            if number != signal.SIGKILL:
                held.go_on.set()
            assert running.wait(60) == status
        held.go_on.set()
        before = held.number
        done = json.loads(agentlearn_here("live", *options, "--once", "--json", cwd=tmp_path).stdout)
        assert (done["outcome"], done["resumed"], done["groups"]) == ("learned", True, 4)
        asked = sum(stub.counts.values())
        assert asked - before < 13, "three calls were answered before, and are not made again"
        nothing = json.loads(agentlearn_here("live", *options, "--once", "--json", cwd=tmp_path).stdout)
        assert (nothing["outcome"], sum(stub.counts.values())) == ("nothing_new", asked)
