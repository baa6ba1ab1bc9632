"""One process of a training run in the tests: the command `agentlearn`, with a stand-in for vLLM, and a time to die.

AGENTLEARN_TEST_DIE="RANK PLACE COUNT" kills the process RANK when PLACE is reached for the COUNT-th time. Places:
`step` the middle of an update in that process; `sample` the sampling of an answer or a round in that process;
`served` an answer of the served model, in the first process.
With AGENTLEARN_TEST_SIGTERM=1 all processes get SIGTERM there, as from `torchrun` when it is stopped.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    """Run the command."""
    rank = int(os.environ.get("RANK", "0"))
    if folder := os.environ.get("AGENTLEARN_TEST_PIDS"):
        (Path(folder) / str(rank)).write_text(str(os.getpid()))
    from agentlearn.train.serving import vllm

    vllm.SERVER = (sys.executable, "-m", "tests.support.vllm_sampling_stand_in")
    vllm.require_vllm = lambda *_given, **_named: None
    # Only a real vLLM on a CPU must get no seeds.
    vllm.VllmEngine.takes_seed = lambda *_given: True
    if planned := os.environ.get("AGENTLEARN_TEST_DIE"):
        who, place, count = planned.split()
        plan_death(int(who), place, int(count), own=rank)
    from agentlearn.cli.stop_signals import run_command

    run_command(sys.argv[1:])


def plan_death(rank: int, place: str, count: int, *, own: int) -> None:
    """Make the process `rank` die there."""
    from agentlearn.train.engine.torch_engine import TorchEngine
    from agentlearn.train.serving.vllm import VllmEngine
    from agentlearn.train.update.updater import Updater

    reached = 0

    def die() -> None:
        nonlocal reached
        reached += 1
        if reached != count:
            return
        pids = Path(os.environ["AGENTLEARN_TEST_PIDS"])
        if os.environ.get("AGENTLEARN_TEST_SIGTERM"):
            for number in range(int(os.environ.get("WORLD_SIZE", "1"))):
                os.kill(int((pids / str(number)).read_text()), signal.SIGTERM)
        else:
            os.kill(int((pids / str(rank)).read_text()), signal.SIGKILL)

    def dying_before(method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            die()
            return method(*given, **named)

        return called

    if place == "served" and own == 0:
        VllmEngine.sample = dying_before(VllmEngine.sample)
    if own != rank:
        return
    if place == "step":
        Updater.accumulate = dying_before(Updater.accumulate)
    if place == "sample":
        TorchEngine.sample_round = dying_before(TorchEngine.sample_round)


if __name__ == "__main__":
    main()
