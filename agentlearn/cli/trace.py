"""`agentlearn trace`."""

from typing import Annotated

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, StoreOption
from agentlearn.cli.output import console, print_json
from agentlearn.config import DEFAULT_STORE


def trace(
    rollout: Annotated[str, Parameter(help="The id of a rollout, or the start of it.")],
    /,
    *,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show one rollout: task, treatment, every step, verdict, and the lessons in its prompt."""
    from agentlearn.rollout.transcript import transcript
    from agentlearn.store import read_store
    from agentlearn.types.trajectory import prompt_labels

    with read_store(store) as reader:
        trajectory = reader.trajectory(rollout)
        task = reader.task(trajectory.task)
        library = reader.library(trajectory.treatment.library)
        summaries = [one for one in reader.summaries(trajectory.run) if one.rollout == trajectory.id]
        proposed = [
            one.ended for one in reader.proposals(trajectory.run) if trajectory.id in one.ended.proposal.evidence
        ]
    if json:
        print_json(
            {
                "trajectory": trajectory.model_dump(mode="json"),
                "task": task.model_dump(mode="json"),
                "lessons": [one.lesson for one in library.experiences if one.id not in trajectory.treatment.masked],
                "summaries": [one.model_dump(mode="json") for one in summaries],
                "proposals": [one.model_dump(mode="json") for one in proposed],
            }
        )
        return
    out = console()
    treatment = trajectory.treatment
    out.print(f"rollout    {trajectory.id} of run {trajectory.run}, {trajectory.phase}, rollout {trajectory.g}")
    lessons = f"{len(library)} lessons ({treatment.library[:8]})"
    out.print(f"treatment  {treatment.model}, temperature {treatment.temperature}, {lessons}")
    out.print(f"task       {task.problem}")
    expected = "unknown" if task.answer is None else task.answer
    out.print(f"expected   {expected}   ({task.family or 'no family'}, {task.source})")
    out.print()
    out.print(transcript(trajectory.steps, max_characters=20_000))
    out.print()
    if trajectory.failure is not None:
        out.print(f"failed     {trajectory.failure.boundary}: {trajectory.failure.code}: {trajectory.failure.message}")
    if trajectory.verdict is not None:
        verdict = trajectory.verdict
        reward = "no reward" if verdict.reward is None else f"reward {verdict.reward:g}"
        out.print(f"answer     {trajectory.answer if trajectory.answer is not None else 'none'}")
        out.print(f"verdict    {verdict.status}, {reward}{': ' + verdict.reason if verdict.reason else ''}")
    usage = trajectory.usage
    tokens = f"{usage.tokens_in} tokens in, {usage.tokens_out} out"
    out.print(f"used       {usage.requests} calls, {tokens}, {trajectory.seconds:.2f} s")
    out.print(f"prompts    {prompt_labels(trajectory.prompts)}")
    for summary in summaries:
        out.print(f"summary    {len(summary.steps)} steps, asked with {prompt_labels(summary.prompts)}")
    for one in proposed:
        operation = "unreadable item" if one.proposal.operation is None else one.proposal.operation.op
        prompts = prompt_labels(one.proposal.prompts)
        out.print(f"proposal   {one.proposal.stage}: {operation}, {one.end.end}, asked with {prompts}")
