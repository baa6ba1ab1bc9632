"""What the command line says about one's own tasks: which command to type, what the simulated model cannot do."""

import asyncio
import json
from pathlib import Path

import pytest
from pydantic_ai.models.test import TestModel

from agentlearn.cli.app import run
from agentlearn.cli.output import console
from agentlearn.cli.progress import LearnProgress, learn_command
from agentlearn.config import BudgetOptions, GivenSettings, LearnSettings
from agentlearn.domain.chosen_settings import learn_fields
from agentlearn.domain.custom import default_reward
from agentlearn.errors import UnknownDomain
from agentlearn.learning.solve import SolveSettings, run_solving
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.models.outage import RetryPolicy
from agentlearn.types.ids import RunId
from tests.support.cases import cases
from tests.support.stages import ListJournal

OWN = LearnSettings(domain="prices", data="my prices.csv", reward="my_reward:score")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (LearnSettings(domain="math"), "agentlearn learn math"),
        (LearnSettings(domain="math", data="mine.csv"), "agentlearn learn math --data mine.csv"),
        (OWN, "agentlearn learn 'my prices.csv' --reward my_reward:score"),
        (
            OWN.model_copy(update={"data": "prices.csv", "tools": "python"}),
            "agentlearn learn prices.csv --reward my_reward:score --tools python",
        ),
        (
            LearnSettings(domain="math", data="mine.csv", columns="problem=A+B"),
            "agentlearn learn math --data mine.csv --columns problem=A+B",
        ),
    ],
)
def test_the_command_names_what_was_given(settings: LearnSettings, words: str) -> None:
    assert learn_command(settings) == words


def opened(settings: LearnSettings, capsys: pytest.CaptureFixture[str], *, simulated: bool = True) -> str:
    """What is printed when a run is open."""
    endpoint_state = EndpointState(Limiter(1), deadline_s=5, retry=RetryPolicy(attempts=1, base_s=0))
    name = "sim:novice" if simulated else "openai:gpt-5-mini"
    endpoint = Endpoint(name=name, model=TestModel(), endpoint_state=endpoint_state, simulated=simulated, url="none")
    call_context = CallContext(RunId("01run"), ListJournal(), Budget(BudgetOptions()))
    LearnProgress(settings, console()).opened(call_context, endpoint, endpoint, (), ())
    return capsys.readouterr().out


def test_a_gym_task_brings_its_reward_unless_another_is_given() -> None:
    assert learn_fields("gym:leg_counting", GivenSettings({})) == {
        "domain": "leg_counting",
        "data": "gym:leg_counting",
        "reward": "gym",
    }
    assert learn_fields("gym:leg_counting", GivenSettings({"reward": "number"}))["reward"] == "number"
    math = learn_fields("math", GivenSettings({"data": "gym:leg_counting"}))
    assert (math["domain"], math.get("reward")) == ("math", None)
    assert (default_reward("hf:aime24"), default_reward("prices.csv")) == (None, None)


@pytest.mark.parametrize("source", ["prices.csv", "PRICES.JSONL", "hf:aime24", "gym:chain_sum"])
def test_a_task_source_is_not_a_domain(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        f"{source!r} is a source of tasks, not a domain (found: 'math', 'web'); learn from it with"
        f" `agentlearn learn {source} --reward number`, and give the lessons to your own agent with Experiences"
    )
    with pytest.raises(UnknownDomain) as caught:
        asyncio.run(run_solving(SolveSettings(domain=source, problem="How many?", store=tmp_path)))
    assert (caught.value.message, caught.value.code) == (words, "unknown_domain")


@pytest.mark.parametrize(
    "command",
    cases(__file__, "a_plan_runs_no_code_of_a_reward"),
)
def test_a_plan_runs_no_code_of_a_reward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prices.csv").write_text("question,answer\n" + "".join(f"What costs {n}?,{n}\n" for n in range(10)))
    Path("recipe_reward.py").write_text("open('ran', 'w').close()\n\ndef score(task, answer): return 1\n")
    Path("recipe.yaml").write_text("data: prices.csv\nreward: recipe_reward:score\n")
    assert run([*command.split(), "--dry-run"]) == 0
    assert not Path("ran").exists()


OWN_COMMANDS = cases(__file__, "own_commands")


@pytest.mark.parametrize(("command", "words"), OWN_COMMANDS)
def test_own_tasks_need_a_model(
    command: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"What costs {n}?,{n},http://127.0.0.1\n" for n in range(10))
    Path("my prices.csv").write_text(f"question,answer,url\n{rows}")
    assert run([*command, "--store", "store"]) == 2
    said = capsys.readouterr().err
    assert (
        "no model is named for the tasks in 'my prices.csv', and sim:novice solves only problems in the words" in said
    )
    assert words in said
    assert not Path("store").exists()


@pytest.mark.parametrize(
    ("options", "code"), [(["--model", "folder"], "no_reward"), (["--reward", "number"], "bad_config")]
)
def test_train_takes_a_task_file_as_learn_does(
    options: list[str], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    Path("rows", "sums.csv").write_text("question,answer\n1 + 1?,2\n")
    assert run(["train", "rows/sums.csv", *options, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code
