"""The simulated reflector reads agentlearn's own prompts: a prompt of another form must be read in `sim/prompts.py`."""

import asyncio
import json

from agentlearn.library.curate import CheckContext
from agentlearn.types.experience import library_of
from agentlearn.types.group import Group, Summary
from agentlearn.types.ids import ProposalId
from agentlearn.types.operation import Add, Delete, Merge, Modify, Proposal
from agentlearn.types.trajectory import ModelTurn, ToolCall, ToolResult
from agentlearn_demo.sim.prompts import (
    ComparedAttempt,
    ComparePrompt,
    ConsolidatePrompt,
    RefusedItem,
    ShownStep,
    SummarisePrompt,
    refusals_in,
    stage_of,
)
from tests.support.stages import group, stage_context, task

CHANGED = "the form of this stage's prompt has changed: read the new form in domains/agentlearn_demo/sim/prompts.py"
LIBRARY = library_of(["When in doubt, try a small case.", "When a fraction appears, reduce it."])
TASK = task("How many integers lie from 3 to 9?", "7")
CODE = "# both ends\nprint(len(range(3, 10)))"


def attempts() -> Group:
    """A right and a wrong attempt with a reason; each runs a program."""
    made = group([1, 0], TASK)
    call = ToolCall(id="c", tool="run_python", arguments=json.dumps({"code": CODE}))
    steps = (
        ModelTurn(text="I count by G1.", tool_calls=(call,)),
        ToolResult(call="c", tool="run_python", content="7", ok=True),
        ModelTurn(text="It is 7."),
    )
    judged = [one.model_copy(update={"steps": steps}) for one in made.trajectories]
    wrong = judged[1].verdict
    assert wrong is not None
    judged[1] = judged[1].model_copy(update={"verdict": wrong.model_copy(update={"reason": "an end is missing"})})
    return Group(task=TASK, trajectories=tuple(judged))


def test_the_reflector_reads_every_stage_and_a_refusal() -> None:
    asked: list[str] = []

    def reply(text: str) -> object:
        asked.append(text)
        if stage_of(text) == "summarise":
            return {"steps": [{"text": "It counted.", "used": ["G1"]}]}
        return {"proposals": [{"op": "delete", "target": "G9"}]}

    context, both = stage_context(reply, LIBRARY), attempts()

    async def stages() -> None:
        summaries: dict[object, Summary] = {}
        for one in both.trajectories:
            summary = (await context.summarise(one, TASK)).summary
            assert summary is not None
            summaries[one.id] = summary
        await context.compare(both, summaries, CheckContext.of([TASK]))  # type: ignore[arg-type]

    asyncio.run(stages())
    operations = (
        Add(lesson="When a range is closed, count both ends."),
        Modify(target=LIBRARY.experiences[0].id, lesson="When unsure, try two small cases."),
        Merge(targets=tuple(one.id for one in LIBRARY.experiences), lesson="When done, check."),
        Delete(target=LIBRARY.experiences[1].id),
    )
    proposals = {
        f"P{n}": Proposal(id=ProposalId(f"p{n}"), stage="compare", ordinal=0, operation=one, task=TASK.id)
        for n, one in enumerate(operations, start=1)
    }
    first, second, comparison, repair = asked
    asked.append(context.consolidate_question(proposals, [both]))
    assert [stage_of(text) for text in asked] == ["summarise", "summarise", "compare", None, "consolidate"], CHANGED

    one, other = SummarisePrompt.read(first), SummarisePrompt.read(second)
    assert (one.right, other.right) == (True, False), CHANGED
    assert [shown.label for shown in one.experiences] == ["G1", "G2"], CHANGED
    assert one.steps == (
        ShownStep("model", "I count by G1.", (("run_python", CODE),)),
        ShownStep("tool", "7", tool="run_python", status="ok"),
        ShownStep("model", "It is 7."),
    ), CHANGED

    compared = ComparePrompt.read(comparison)
    assert (compared.problem, compared.gold) == (TASK.problem, TASK.answer), CHANGED
    assert [shown.text for shown in compared.experiences] == [one.lesson for one in LIBRARY.experiences], CHANGED
    said = "1. It counted. (used G1)"
    assert compared.attempts == (ComparedAttempt(True, said), ComparedAttempt(False, said, "an end is missing")), (
        CHANGED
    )

    read = ConsolidatePrompt.read(asked[-1]).suggestions
    assert [(one.label, one.op, one.targets, one.lesson, one.task) for one in read] == [
        ("P1", "add", (), "When a range is closed, count both ends.", 1),
        ("P2", "modify", ("G1",), "When unsure, try two small cases.", 1),
        ("P3", "merge", ("G1", "G2"), "When done, check.", 1),
        ("P4", "delete", ("G2",), "", 1),
    ], CHANGED
    assert refusals_in(repair) == (RefusedItem(1, "unknown_id"),), CHANGED
