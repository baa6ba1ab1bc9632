"""An agent of one's own on the command line: the example of docs/own_agent.md, in an empty folder and offline."""

import json
import re
from pathlib import Path

import pytest

from tests.support.command import agentlearn_here

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs/own_agent.md"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an otherwise empty folder with the bot and its tasks."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert code.count("\n") <= 30
    # A module of its own name: this process imports it, and another test may have a `bot` too.
    (tmp_path / "shop_bot.py").write_text(code)
    (tmp_path / "tasks.csv").write_text(
        "problem,answer\n" + "".join(f"Parcel {n} is late,shipping\n" for n in range(20))
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


BOT = ("shop_bot:agent", "--reward", "shop_bot:score")


def test_an_agent_is_scored_learned_for_compared_and_asked(shop: Path) -> None:
    agent, *reward = BOT
    scored = json.loads(agentlearn_here("eval", agent, "tasks.csv", *reward, "--json", cwd=shop).stdout)
    (arm,) = scored["arms"]
    assert (arm["rollouts"], arm["failed"], arm["undecided"]) == (80, 0, 0)
    assert arm["low"] < arm["score"] < arm["high"] < 1
    failed = agentlearn_here("eval", agent, "tasks.csv", *reward, "--fail-under", "1", cwd=shop, expect=1)
    assert "below --fail-under 1" in failed.stderr
    assert "score" in failed.stdout

    learned = agentlearn_here("learn", agent, "tasks.csv", *reward, "--epochs", "1", cwd=shop).stdout
    assert learned.startswith(f"agentlearn learn {agent} tasks.csv --reward shop_bot:score\n")
    assert "library    shop@" in learned

    compared = agentlearn_here("compare", agent, "--held-out-of", "last", *reward, "-k", "3", "--json", cwd=shop)
    (contrast,) = json.loads(compared.stdout)["contrasts"]
    assert (contrast["arm"], contrast["baseline"], contrast["verdict"]) == ("shop", "none", "better")
    without_agent = agentlearn_here("compare", "none", "shop", "--held-out-of", "last", "-k", "3", cwd=shop)
    assert "shop is better than none" in without_agent.stdout

    solved = agentlearn_here(
        *("solve", agent, "Parcel 99 is late", "--library", "shop", "--answer", "shipping", *reward), cwd=shop
    )
    assert "verdict: right, reward 1" in solved.stdout


def test_a_run_over_an_agent_is_resumed_by_the_command_line(shop: Path) -> None:
    agent, *reward = BOT
    stopped = agentlearn_here(
        *("learn", agent, "tasks.csv", *reward, "--max-tokens", "800", "--concurrency", "2"), cwd=shop, expect=3
    )
    (resume,) = re.findall(r"--resume (\w+)", stopped.stdout + stopped.stderr)[:1]
    assert "library    shop@" in agentlearn_here("learn", "--resume", resume, "--max-tokens", "999999", cwd=shop).stdout
