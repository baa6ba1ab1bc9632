"""Tasks of several turns: the rollout is the whole conversation with the task's user."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import Rubric, Task, Trajectory, User, Work, learn_sync, read_store, solve_sync
from agentlearn.data import read_tasks
from agentlearn.errors import ConfigError, DataError
from agentlearn.types.trajectory import Verdict
from tests.support.desk import reflecting
from tests.support.stages import last_user_text

GOAL = "Your order has the number 17, and you want your money."


def answering(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A clerk who asks for the number and pays, and a customer who tells it and then has no more to say."""
    heard = last_user_text(messages)
    if info.instructions and GOAL in info.instructions:  # the customer
        said = "It is order 17." if "number" in heard else "<end>" if "paid" in heard else "I want my money."
        return ModelResponse(parts=[TextPart(said)])
    assert GOAL not in str(messages) + str(info)
    if "17" not in heard:
        return ModelResponse(parts=[TextPart("<think>who?</think>Which number has your order?")])
    if isinstance(messages[-2].parts[-1], ToolCallPart):
        return ModelResponse(parts=[TextPart("I paid it back.")])
    return ModelResponse(parts=[ToolCallPart("pay", {"order": 17})])


def clerk(paid: list[int]) -> Agent[None, str]:
    agent = Agent(FunctionModel(answering), name="clerk")

    @agent.tool_plain
    def pay(order: int) -> str:
        paid.append(order)
        return "done"

    return agent


def solved(what: Any, task: Task, store: Path, **options: Any) -> Trajectory:
    found = solve_sync(what, task, store=store, **options)
    with read_store(store) as reader:
        assert reader.trajectory(found.id).steps == found.steps
    return found


def said(trajectory: Trajectory) -> list[str]:
    return [f"{step.kind}: {getattr(step, 'text', '') or getattr(step, 'content', '')}" for step in trajectory.steps]


TALK = [
    "model: Which number has your order?",
    "user: It is order 17.",
    "model: ",
    "tool: done",
    "model: I paid it back.",
]


@pytest.mark.parametrize(
    "user", [User(goal=GOAL), User(script=("It is order 17.",))], ids=["played by a model", "a script"]
)
def test_a_rollout_is_the_whole_conversation(user: User, tmp_path: Path) -> None:
    paid: list[int] = []

    def judged(task: Task, answer: str, trajectory: Trajectory) -> Verdict:
        assert said(trajectory) == TALK
        return Verdict(status="correct", reward=1.0)

    trajectory = solved(clerk(paid), Task.of("Hello.", user=user), tmp_path, reward=judged)
    assert (trajectory.reward, trajectory.answer, paid) == (1.0, "I paid it back.", [17])
    assert said(trajectory) == TALK
    assert trajectory.usage.requests == 3  # the clerk's alone


def test_a_conversation_counts_all_calls_of_the_agent_as_one_rollout(tmp_path: Path) -> None:
    task = Task.of("Hello.", user=User(script=("It is order 17.",)))
    trajectory = solved(clerk([]), task, tmp_path, reward="contains", max_turns=2)
    assert trajectory.failure is not None
    assert (trajectory.failure.code, trajectory.failure.boundary) == ("too_many_turns", "output")
    assert said(trajectory) == TALK[:4]  # what was said before is kept


def test_a_failure_of_the_user_is_not_one_of_the_agent(tmp_path: Path) -> None:
    def silent(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("" if GOAL in (info.instructions or "") else "Which number?")])

    trajectory = solved(Agent(FunctionModel(silent)), Task.of("Hello.", user=User(goal=GOAL)), tmp_path)
    assert trajectory.failure is not None
    assert (trajectory.failure.code, trajectory.failure.of_agent) == ("no_user", False)
    assert said(trajectory) == ["model: Which number?"]


def test_a_user_with_a_goal_stops_after_its_turns(tmp_path: Path) -> None:
    def talk(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("Go on.")])

    trajectory = solved(Agent(FunctionModel(talk)), Task.of("Hello.", user=User(goal=GOAL, turns=2)), tmp_path)
    assert said(trajectory) == ["model: Go on.", *["user: Go on.", "model: Go on."] * 2]


def test_a_program_talks_with_the_user(tmp_path: Path) -> None:
    async def program(task: Task, lessons: str, work: Work) -> str:
        assert work.reply is not None
        heard = [task.problem]
        while (reply := await work.reply("And then?")) is not None:
            heard.append(reply)
        return " ".join(heard)

    task = Task.of("One.", "One. Two. Three.", user=User(script=("Two.", "Three.")))
    assert solved(program, task, tmp_path, reward="exact", model=FunctionModel(answering)).reward == 1.0


def test_a_judge_reads_the_whole_conversation(tmp_path: Path) -> None:
    asked: list[str] = []

    def judging(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if not info.output_tools:
            return answering(messages, info)
        asked.append(last_user_text(messages))
        verdict = {"criteria": [{"number": 1, "reason": "it did", "met": "yes"}]}
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, verdict)])

    agent, task = Agent(FunctionModel(judging)), Task.of("Hello.", user=User(script=("I am new.",)))
    assert solved(agent, task, tmp_path, reward=Rubric(["Asks for the number"])).reward == 1.0
    assert "agent: Which number has your order?\nuser: I am new.\nagent: Which number" in asked[0]


USERS: list[tuple[dict[str, Any], User | None]] = [
    ({"user_goal": GOAL}, User(goal=GOAL)),
    ({"user_goal": GOAL, "user_turns": "3"}, User(goal=GOAL, turns=3)),
    ({"user_script": "One.\n\nTwo."}, User(script=("One.", "Two."))),
    ({"user_script": '["One.", "Two."]'}, User(script=("One.", "Two."))),
    ({"user_script": ["One.", "Two."]}, User(script=("One.", "Two."))),
    ({"user": "17", "user_goal": ""}, None),
    ({"user_turns": 3}, None),
]


@pytest.mark.parametrize(("columns", "user"), USERS)
def test_a_task_from_anywhere_may_have_a_user(columns: dict[str, Any], user: User | None, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps({"problem": "Hello.", "answer": "17", **columns}))
    (read,) = read_tasks(file, domain="shop", split="train")
    assert read.user == user
    assert Task.of("Hello.", fields=columns).user == user


def test_tasks_that_begin_alike_differ_by_their_users(tmp_path: Path) -> None:
    file = tmp_path / "tasks.csv"
    file.write_text("problem,answer,user_goal\nHello.,17,You want 17.\nHello.,18,You want 18.\n")
    assert [task.answer for task in read_tasks(file, domain="shop", split="train")] == ["17", "18"]
    assert len({task.id for task in read_tasks(file, domain="shop", split="train")}) == 2


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"user_goal": GOAL, "user_script": ["One."]}, "needs either a goal or a script"),
        ({"user_script": ["One.", " "]}, "has an empty message in its script"),
        ({"user_script": "[One.]"}, "its script is no JSON"),
        ({"user_script": {"a": 1}}, "its script:"),
        ({"user_goal": GOAL, "user_turns": 0}, "its turns: Input should be greater than or equal to 1"),
    ],
)
def test_a_user_that_cannot_be_used_is_refused(columns: dict[str, Any], words: str, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps({"problem": "Hello.", "answer": "17", **columns}))
    with pytest.raises(DataError, match=r"tasks.jsonl line 1 has a user that cannot be used") as found:
        read_tasks(file, domain="shop", split="train")
    assert words in found.value.message
    with pytest.raises(ConfigError) as given:
        Task.of("Hello.", fields=columns)
    assert words in given.value.message


@pytest.mark.slow
def test_the_example_with_several_turns_learns_what_the_shop_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "made-up")
    shop: dict[str, Any] = runpy.run_path("docs/examples/returns.py")
    lesson = "Pay back half of the price when the customer has opened the box."

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        heard, told = last_user_text(messages), info.instructions or ""
        if told.startswith("You play a person"):
            number = re.search(r"number (\d+)", told)
            return ModelResponse(parts=[TextPart("<end>" if "back" in heard else f"It is {number and number[1]}.")])
        if (reflected := reflecting(messages, info, lesson)) is not None:
            return reflected
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart) and last.tool_name == "look_up":
            price = float(str(last.content).split(",")[0].removeprefix("paid "))
            share = 0.5 if lesson in told and "unopened" not in str(last.content) else 1.0
            number = last.tool_call_id
            return ModelResponse(parts=[ToolCallPart("pay_back", {"order": int(number), "amount": price * share})])
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart("I paid it back.")])
        if (number := re.search(r"\d+", heard)) is None:
            return ModelResponse(parts=[TextPart("Which order?")])
        return ModelResponse(parts=[ToolCallPart("look_up", {"order": int(number[0])}, tool_call_id=number[0])])

    report = learn_sync(
        shop["clerk"],
        shop["tasks"],
        reward=shop["refunded"],
        model=FunctionModel(model),
        library="returns",
        store=tmp_path,
        group_size=2,
        epochs=1,
        trust=["tools", "reasons"],
    )
    assert report.before is not None
    assert report.after is not None
    assert (report.before.mean, report.after.mean) == (0.0, 1.0)  # the order that is held out was opened
