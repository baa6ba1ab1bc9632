"""Run two other harnesses over a toy task without network, and leave their logs: `python make_logs.py FOLDER`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import tiktoken

FOLDER = Path(sys.argv[1])


class Words:
    """Counts tokens without the file that tiktoken would fetch."""

    def encode(self, text: str, **_: object) -> list[str]:
        return text.split()


def run_inspect() -> None:
    """Five samples in two epochs: right, wrong, raising, over their time, and over their messages."""
    from inspect_ai import Task
    from inspect_ai import eval as run
    from inspect_ai.dataset import Sample
    from inspect_ai.model import Model, ModelOutput, get_model
    from inspect_ai.scorer import Score, Scorer, Target, match, mean, scorer
    from inspect_ai.solver import Generate, Solver, TaskState, generate, solver, use_tools
    from inspect_ai.tool import Tool, tool
    from inspect_ai.util import LimitExceededError

    @tool
    def add() -> Tool:
        async def execute(one: int, other: int) -> str:
            """Add two numbers.

            Args:
                one: a number
                other: a number
            """
            return str(one + other)

        return execute

    @scorer(metrics=[mean()])
    def judged() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            if state.sample_id == "wrong":
                return Score.unscored(reason="grader_failed")
            return Score(value={"style": "P", "length": 0.25})

        return score

    @solver
    def trouble() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            if state.sample_id == "raises":
                raise ValueError("no such sum")
            if state.sample_id == "late":
                raise LimitExceededError("time", value=2, limit=1)
            if state.sample_id == "long":
                raise LimitExceededError("message", value=2, limit=1)
            return state

        return solve

    def model() -> Model:
        def outputs() -> Iterator[ModelOutput]:
            while True:
                yield ModelOutput.for_tool_call("mockllm/model", "add", {"one": 1, "other": 1})
                yield ModelOutput.from_content("mockllm/model", "2")

        return get_model("mockllm/model", custom_outputs=outputs())

    def sample(name: str, target: str) -> Sample:
        metadata = {"cluster": "sums", "tags": ["easy", "short"]}
        return Sample(id=name, input=f"{name}: 1 + 1?", target=target, metadata=metadata)

    samples = [sample("right", "2"), sample("wrong", "3")]
    samples += [sample(name, "2") for name in ("raises", "late", "long")]
    task = Task(
        name="sums",
        dataset=samples,
        solver=[use_tools(add()), trouble(), generate()],
        scorer=[match(numeric=True), judged()],
        epochs=2,
    )
    for form in ("eval", "json"):
        run(
            task,
            model=model(),
            log_dir=str(FOLDER / form),
            log_format=form,
            fail_on_error=False,
            max_samples=1,
            display="none",
        )


tiktoken.get_encoding = lambda name: Words()  # type: ignore[assignment]
tiktoken.encoding_for_model = lambda name: Words()  # type: ignore[assignment]
run_inspect()
