"""A reflector looks things up in a trajectory that is too long for a request."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.config import BudgetOptions, LearnSettings
from agentlearn.learning.callbacks import Update
from agentlearn.learning.lessons.lesson_learner import LessonLearner
from agentlearn.learning.lessons.stage_agent import MOST_CALLS, TrajectoryFiles
from agentlearn.learning.lessons.stages import Stages
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, CallRecord
from agentlearn.rollout.transcript import transcript_ends
from agentlearn.store import open_store, read_store
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.group import Group, Summary
from agentlearn.types.ids import CallId, RolloutId
from agentlearn.types.trajectory import ModelTurn, ToolResult, Trajectory, Verdict
from tests.support.stages import RUN, ListJournal, last_user_text, scripted, stage_context, task, trajectory

SECRET = "The ferry leaves at nine from the old pier in winter."
SEARCH = "text = open('trajectory.txt').read()\nfound = [line for line in text.splitlines() if 'The ferry' in line]"
Answer = Callable[[list[ModelMessage], AgentInfo], ModelResponse]


class Replaying(ListJournal):
    """The journal of a run that is resumed."""

    async def recorded(self, identity: CallId) -> CallRecord | None:
        return next((one for one in self.records if one.id == identity), None)


def long_one(texts: int = 40) -> Trajectory:
    middle = [
        ToolResult(call=f"{n}", tool="page", content=f"Page {n}. " + "word " * 900, ok=True) for n in range(texts)
    ]
    middle[texts // 2] = middle[0].model_copy(update={"content": "x " * 3000 + SECRET + " y" * 3000})
    steps = (ModelTurn(text="I look for the ferry."), *middle, ModelTurn(text="It leaves at eight."))
    return trajectory(task(), 0, 0.0).model_copy(update={"steps": steps})


def run(code: str) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart("read_trajectory", {"code": code})])


def searching(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Search, then print what was found with a variable of the first program, then submit it."""
    results = [p.content for m in messages for p in m.parts if isinstance(p, ToolReturnPart)]
    if len(results) < 2:
        return run((SEARCH, "at = found[0].index('The ferry')\nprint(found[0][at:at + 53])")[len(results)])
    return ModelResponse(parts=[ToolCallPart("submit", {"steps": [{"text": f"It read: {results[-1]}"}]})])


def stages_of(answer: Answer, journal: ListJournal) -> Stages:
    stages = stage_context(lambda _: "")
    model = FunctionModel(answer)
    context = replace(stages.call_context, journal=journal)
    return replace(stages, call_context=context, endpoint=replace(stages.endpoint, model=model))


def summarised(stages: Stages, one: Trajectory, tokens: int = 2_000) -> tuple[Summary | None, dict[str, int]]:
    async def ask() -> tuple[Summary | None, dict[str, int]]:
        async with AsyncExitStack() as stack:
            files = TrajectoryFiles(tokens, None, stack)
            found = await replace(stages, files=files).summarise(one, task())
            return found.summary, dict(found.faults)

    return asyncio.run(ask())


def test_a_sentence_in_the_middle_is_found_and_a_resumed_run_takes_the_results_from_the_journal() -> None:
    sizes, journal = list[int](), Replaying()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sizes.append(sum(len(str(getattr(p, "content", ""))) for m in messages for p in m.parts))
        return searching(messages, info)

    one = long_one()
    summary, faults = summarised(stages_of(answer, journal), one)
    assert summary is not None
    assert [step.text for step in summary.steps] == [f"It read: {SECRET}"]
    assert [ref.name.partition(":")[2] for ref in summary.prompts] == ["summarise", "look_up"]
    assert (not any(faults.values()), max(sizes) < 8_000) == (True, True)
    assert [(r.kind, r.name, r.ok) for r in journal.records if r.kind == "tool"] == [
        ("tool", "read_trajectory", True)
    ] * 2

    def never(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise AssertionError("answered calls are not repeated")

    count = len(journal.records)
    again, _ = summarised(stages_of(never, journal), one)
    assert (again, len(journal.records)) == (summary, count)
    del journal.records[3:]  # it ended after the second program: the first one runs again, for its variables
    resumed, _ = summarised(stages_of(searching, journal), one)
    assert resumed == summary


def test_a_trajectory_that_fits_and_a_model_that_calls_no_tool_are_asked_as_before() -> None:
    asked: list[tuple[int, int]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        whole = sum("Page 10." in str(getattr(p, "content", "")) for p in messages[0].parts)
        asked.append((len(info.function_tools), whole))
        return ModelResponse(parts=[TextPart('{"steps": [{"text": "It looked."}]}')])

    one = long_one()
    assert summarised(stages_of(answer, ListJournal()), one, tokens=10**6)[0] is not None
    assert asked == [(0, 1)]
    summary, _ = summarised(stages_of(answer, ListJournal()), one)  # offered the tool, and did not call it
    assert asked[1:] == [(1, 0), (0, 1)]
    assert summary is not None
    assert len(summary.prompts) == 1


def test_the_number_of_programs_is_bounded_and_a_failure_of_one_is_told_to_the_model() -> None:
    heard = list[str]()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        heard.extend(str(p.content) for p in messages[-1].parts if isinstance(p, ToolReturnPart))
        if info.function_tools:
            return run("1 / 0") if len(heard) % 2 else run("print(open('/etc/passwd').read())")
        return ModelResponse(parts=[ToolCallPart("submit", {"steps": ["It failed."]})])

    summary, _ = summarised(stages_of(answer, journal := ListJournal()), long_one())
    assert summary is not None
    assert len(heard) == MOST_CALLS == sum(one.kind == "tool" for one in journal.records)
    assert "PermissionError" in heard[0]
    assert "ZeroDivisionError" in heard[1]
    assert {one.ok for one in journal.records if one.kind == "tool"} == {False}


def test_the_ends_of_a_transcript_name_what_is_left_out() -> None:
    one = long_one()
    shown = transcript_ends(one.steps, max_characters=4_000)
    assert len(shown) < 4_100
    assert shown.startswith("step 1 · model\nI look for the ferry.\nstep 2 · tool page · ok\nPage 0.")
    assert "\n[… steps 3 to 40 of 42 are left out here …]\n" in shown
    assert shown.endswith("step 42 · model\nIt leaves at eight.")
    assert transcript_ends(one.steps[:1], max_characters=4_000) == "step 1 · model\nI look for the ferry."


def test_what_was_looked_up_counts_as_text_of_its_authors(tmp_path: Path) -> None:
    """A lesson in its words is refused, and another one keeps the tool as a stranger behind it."""
    copied, own = (
        f"When a boat is asked for, {SECRET[:-1].lower()}.",
        "When a timetable matters, check the season first.",
    )

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if info.function_tools:
            return searching(messages, info)
        asked = last_user_text(messages)
        items = [{"op": "add", "lesson": copied}] if "<attempts" in asked else []
        items += [{"op": "add", "lesson": own, "rests_on": ["P1"]}] if "refused" not in asked else []
        return ModelResponse(parts=[ToolCallPart("submit", {"proposals": items})])

    async def groups() -> AsyncGenerator[Group]:
        right = long_one().model_copy(update={"g": 1, "id": RolloutId("right"), "verdict": Verdict.of(1.0)})
        yield Group(task=task(), trajectories=(long_one(), right))

    async def learned() -> Update:
        async with open_store(tmp_path) as store:
            learner = LessonLearner(
                library=EMPTY_LIBRARY,
                settings=LearnSettings(domain="math", model="scripted", history_tokens=2_000),
                call_context=CallContext(RUN, store, Budget(BudgetOptions())),
                reflector=replace(scripted(lambda _: ""), model=FunctionModel(answer)),
                store=store,
            )
            await learner.save_prompts()
            return await learner.update(groups(), step="epoch-1/1")

    update = asyncio.run(learned())
    ends = [getattr(one.end, "code", one.end.end) for one in update.evidence.ended]
    assert "copies_page" in ends
    (lesson,) = update.library.experiences
    assert (lesson.lesson, [one.words for one in lesson.origin.strangers]) == (own, ["results of a tool (page)"])
    with read_store(tmp_path) as reader:
        assert SECRET in reader.summaries(RUN)[0].raw


@pytest.mark.slow
def test_a_trajectory_of_50_mb_needs_little_more_memory_than_its_own() -> None:
    import tracemalloc

    one = long_one(10_000)
    tracemalloc.start()
    summary, _ = summarised(stages_of(searching, ListJournal()), one)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert summary is not None
    assert summary.steps[0].text == f"It read: {SECRET}"
    assert peak < 10_000_000
