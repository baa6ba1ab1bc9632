"""docs/production.md: its way from zero to production, run in order as a reader would, does what the page says."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentlearn import lessons
from tests.support.command import agentlearn_here
from tests.support.openai_script import Reply, Request, stage_of, submit, user_text
from tests.support.openai_stub import OpenAIStub

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "production.md").read_text(encoding="utf-8")
STORY = PAGE.partition("## From zero to production")[2].partition("\n## ")[0]
DAY = "When a parcel is late, name the day on which it arrives."
FORM = "When a refund is asked for, name the form and who signs it."
ANA = "for the account of Ana Example"


def reflector(request: Request) -> Reply:
    """A scripted model that writes one lesson about parcels and one about refunds, and none that it was shown."""
    said, stage = user_text(request), stage_of(request)
    if stage == "summarise":
        return submit(request, json.dumps({"steps": [{"text": "It answered.", "used": []}]}))
    if stage == "compare":
        lesson = FORM if "refund" in said else DAY
        return submit(request, json.dumps({"proposals": [] if lesson in said else [{"op": "add", "lesson": lesson}]}))
    labels = re.findall(r"\b(P\d+)\b", proposed := said.partition("<proposals>")[2])
    made = [{"op": "add", "lesson": one, "rests_on": labels} for one in (DAY, FORM) if one in proposed]
    return submit(request, json.dumps({"proposals": made}))


def simulated(messages: list[dict[str, str]]) -> str:
    """The model of the application: it is right where a lesson tells it how."""
    system = "".join(one["content"] for one in messages if one["role"] == "system")
    known = FORM if "refund" in messages[-1]["content"] else DAY
    return "You get it on Friday; Kim signs form 7." if known in system else "I cannot say."


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    commands = iter([line for block in re.findall(r"```sh\n(.*?)```", STORY, re.DOTALL) for line in block.splitlines()])

    def following(**named: str) -> str:
        """Run the next command of the page, as one pass, and return what it prints."""
        line = next(commands).replace("--every 1h", "--once").replace("openai:gpt-5-mini", named.get("model", ""))
        return agentlearn_here(*[named.get(word, word) for word in shlex.split(line)[1:]], cwd=tmp_path).stdout

    return following


def test_from_zero_to_production(run: Callable[..., str], tmp_path: Path) -> None:
    app: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", STORY, re.DOTALL)[0], app)
    talks = iter(range(1_000))

    def users(count: int, about: str) -> float:
        """Ask and judge, as simulated users. Return the share of right answers."""
        right = list[bool]()
        for number in range(count):
            talk = next(talks)
            user, whose = ("ana", ANA) if number < 2 else (f"user {talk}", "for me")
            asked = f"Where is the {about} of order {talk} {whose}?"
            text, rollout = app["answer"](asked, f"talk {talk}", user, simulated)
            right.append("Friday" in text)
            reward = (1, "") if right[-1] else (0, "it says nothing that I could use")
            app["recorder"].feedback_sync(rollout, reward=reward, by=user)
        return sum(right) / count

    def pending() -> str:
        (item,) = json.loads(agentlearn_here("review", "--json", cwd=tmp_path).stdout)["items"]
        return item["id"]

    def shown() -> list[str]:
        return [one.lesson for one in lessons("support").library.experiences]

    with OpenAIStub(reflector) as stub:
        model = f"{stub.base_url}#reflector"
        assert users(6, "parcel") == 0
        assert "waits for you as support@" in run(model=model)
        first = pending()
        assert DAY in run()
        run(VERSION=first)
        assert shown() == [DAY]
        assert users(4, "parcel") == 1
        assert users(6, "refund") == 0
        run(model=model)
        assert "compared" in run(VERSION=pending())
        run()
        assert 0.2 < users(100, "refund") < 0.8, "a share of the conversations reads the canary"
        assert "canary: promote" in run(model=model)
        assert shown() == [DAY, FORM]
        assert "promote" in run()
        assert users(4, "refund") == 1
        run(FIRST=first)
        assert shown() == [DAY]
        app["recorder"].close()
        run()
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert [file.name for file in files if ANA.encode() in file.read_bytes()] == []
    assert shown() == [], "what ana's words taught is shown no more"
