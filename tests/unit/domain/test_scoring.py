"""Scorers run in a process of their own: bounded, replaced when it ends, and gone with its parent."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentlearn.domain.custom.scoring import ScoringProcess
from agentlearn.errors import VerifierError
from tests.support.gym_stand_in import stand_in_gym

PLACE = "gym:chain_sum?seed=0&size=3#2"
RIGHT, NEAR = "8", "9"
AMPLE_S = 120.0


@pytest.fixture(autouse=True)
def _gym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with stand_in_gym(tmp_path, monkeypatch):
        yield


async def outcome(scorer: ScoringProcess, answer: str, place: str = PLACE) -> float | tuple[str, str]:
    """The score, or code and words of why there is none."""
    try:
        return await scorer.score(place, answer)
    except VerifierError as error:
        return error.code, error.message


def outcomes(*answers: str) -> list[float | tuple[str, str]]:
    async def run() -> list[float | tuple[str, str]]:
        async with ScoringProcess.running(limit_s=AMPLE_S) as scorer:
            return [await outcome(scorer, answer) for answer in answers]

    return asyncio.run(run())


def test_what_is_no_score_is_told_and_the_process_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_API_KEY", "for nobody else")
    answers = ("nan", "beyond", "below", "none", "raise", "leave", "memory", "file", "f(1)", "secret", "print", RIGHT)
    found = dict(zip(answers, outcomes(*answers), strict=True))
    told = {answer: one for answer, one in found.items() if isinstance(one, tuple)}
    assert {answer: code for answer, (code, _) in told.items()} == {
        **dict.fromkeys(("nan", "beyond", "below"), "bad_score"),
        **dict.fromkeys(("none", "raise", "leave", "memory", "file"), "scorer_raised"),
        "f(1)": "scorer_refused",
    }
    assert told["beyond"][1] == f"the scorer of '{PLACE}' gave 1.5, not a number from 0 to 1"
    assert told["raise"][1] == f"the scorer of '{PLACE}' raised ValueError: no sum"
    assert "raised MemoryError" in told["memory"][1]
    assert (found["secret"], found["print"], found[RIGHT]) == (0.0, 0.5, 1.0), "no secret, no forged reply, still alive"
    assert not (tmp_path / "written-by-a-scorer").exists() or not (tmp_path / "written-by-a-scorer").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["endless", "endless in C"])
def test_an_endless_scorer_is_ended_and_the_next_answer_is_scored(answer: str) -> None:
    async def run() -> None:
        async with ScoringProcess.running(limit_s=0.3) as scorer:
            code, words = await refused(scorer, answer)
            assert code == "scorer_timeout"
            assert words == (
                f"the scorer of '{PLACE}', given an answer of {len(answer)} characters, took longer than 0.3 s"
            )
            scorer._limit_s = AMPLE_S
            assert await scorer.score(PLACE, RIGHT) == 1.0

    asyncio.run(run())


async def refused(scorer: ScoringProcess, answer: str) -> tuple[str, str]:
    found = await outcome(scorer, answer)
    assert isinstance(found, tuple)
    return found


def test_a_process_that_ends_is_replaced() -> None:
    crashed, scored = outcomes("crash", RIGHT)
    assert crashed == (
        "scorer_crashed",
        f"the scorer of '{PLACE}', given an answer of 5 characters, ended the scoring process",
    )
    assert scored == 1.0


@pytest.mark.slow
def test_a_process_that_something_else_kills_costs_no_score() -> None:
    async def run() -> None:
        async with ScoringProcess.running(limit_s=AMPLE_S) as scorer:

            async def kill() -> None:
                while scorer._child is None:
                    await asyncio.sleep(0.01)
                scorer._child._process.kill()

            starting = asyncio.create_task(scorer.score(PLACE, RIGHT))
            await kill()
            assert await starting == 1.0
            await kill()  # between two questions
            assert await scorer.score(PLACE, NEAR) == 0.5
            asked = asyncio.create_task(scorer.score(PLACE, RIGHT))
            await asyncio.sleep(0)
            await kill()
            assert await asked == 1.0

    asyncio.run(run())


def test_a_cancelled_question_leaves_no_reply_for_the_next_one() -> None:
    async def run() -> None:
        async with ScoringProcess.running(limit_s=AMPLE_S) as scorer:
            assert await scorer.score(PLACE, NEAR) == 0.5
            child = scorer._child
            asked = asyncio.create_task(scorer.score(PLACE, "endless"))
            while not scorer._turn.locked():
                await asyncio.sleep(0.01)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert await scorer.score(PLACE, RIGHT) == 1.0
            assert scorer._child is not child

    asyncio.run(run())


PARENT = """
import asyncio, sys
from agentlearn.domain.custom.scoring import ScoringProcess

async def main():
    async with ScoringProcess.running(limit_s=3600) as scorer:
        await scorer.score(sys.argv[1], "1")
        asked = asyncio.create_task(scorer.score(sys.argv[1], "endless in C"))
        await asyncio.sleep(0.2)
        print(scorer._child._process.pid, flush=True)
        await asked

asyncio.run(main())
"""


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    command = [sys.executable, "-c", PARENT, PLACE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + AMPLE_S
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = alive(child)
    if left:
        os.kill(child, signal.SIGKILL)
    assert not left


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
