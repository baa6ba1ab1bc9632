"""Runs the solver and the scorers of an inspect_ai task on one sample, outside of its own `eval`.

`eval` runs one set of tasks at a time in a process and writes a log of its own; here, many samples run at once and the
store holds what happened. Private modules of inspect_ai are imported in this module and nowhere else, except for its
loader.
"""

from collections.abc import Generator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from copy import deepcopy
from typing import Any, Literal

import inspect_ai
from inspect_ai._eval.context import init_task_context
from inspect_ai._eval.task.generate import task_generate
from inspect_ai._eval.task.run import resolve_plan
from inspect_ai._eval.task.util import sample_messages
from inspect_ai._util.notgiven import NOT_GIVEN
from inspect_ai.dataset import Sample
from inspect_ai.log._samples import active_sample
from inspect_ai.log._transcript import Transcript, init_transcript
from inspect_ai.model import GenerateConfig, Model
from inspect_ai.model._assistant_internal import init_sample_assistant_internal
from inspect_ai.model._model import init_sample_model_data
from inspect_ai.scorer import Score, Scorer, Target
from inspect_ai.scorer._score import init_scoring_context
from inspect_ai.scorer._scorer import unique_scorer_name
from inspect_ai.solver import TaskState
from inspect_ai.solver._fork import set_task_generate
from inspect_ai.solver._task_state import sample_state, set_sample_state
from inspect_ai.util import LimitExceededError, time_limit, working_limit
from inspect_ai.util._anyio import inner_exception
from inspect_ai.util._limit import turn_limit
from inspect_ai.util._store import init_subtask_store
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.settings import ModelSettings

from agentlearn.domain.base import Work
from agentlearn.errors import VerifierError
from agentlearn.types.task import Task
from agentlearn_adapters.inspect_tasks.inspect_model import rollout_model
from agentlearn_adapters.model_calls import ModelCalls

_JUDGE_CALLS = 64
"""Largest number of model calls of the scorers of one sample."""


async def solved(task: inspect_ai.Task, sample: Sample, calls: ModelCalls) -> TaskState:
    """Return the state after the task's solver. A limit of the task ends the solver, and what there is gets scored."""
    model = rollout_model(calls, task.config)
    state = _state(task, sample, str(model))
    transcript = _enter(task, sample, state, calls)
    try:
        async with _active(task, sample, state, transcript):
            with _limits(task, state):
                state = await resolve_plan(task, None)(state, _generate(task, model))
    except LimitExceededError:
        state = sample_state() or state
    except Exception as error:
        raise inner_exception(error) from error
    finally:
        if task.cleanup is not None:
            await task.cleanup(state)
    state.completed = True
    return state


async def scored(
    task: inspect_ai.Task, sample: Sample, state: TaskState, of: Task, judge: PydanticModel | None
) -> Mapping[str, Score | None]:
    """Return the scores of all scorers by name, in the task's order. judge: the model for scorers that ask one."""
    if judge is None:
        raise VerifierError("no model was given for scorers that ask one", code="no_judge")
    work = Work(task=of, lessons="", model=judge, deps=None, seed=0, settings=ModelSettings(), max_turns=_JUDGE_CALLS)
    calls = ModelCalls(work)
    return await calls.run(_scores(task, sample, state, calls))


async def _scores(
    task: inspect_ai.Task, sample: Sample, state: TaskState, calls: ModelCalls
) -> Mapping[str, Score | None]:
    _enter(task, sample, state, calls)
    scores: dict[str, Score | None] = {}
    for scorer in task.scorer or ():
        scores[unique_scorer_name(scorer, list(scores))] = await scorer(state, Target(sample.target))
    return scores


def _state(task: inspect_ai.Task, sample: Sample, model: str) -> TaskState:
    return deepcopy(
        TaskState(
            model=model,  # pyright: ignore[reportArgumentType] - a name type of a str
            sample_id=sample.id if sample.id is not None else 0,
            epoch=1,
            input=sample.input,
            target=Target(sample.target),
            choices=sample.choices,
            messages=sample_messages(sample),
            message_limit=task.message_limit,
            token_limit=task.token_limit if isinstance(task.token_limit, int) else None,
            cost_limit=None,
            completed=False,
            metadata=sample.metadata or {},
        )
    )


@contextmanager
def _limits(task: inspect_ai.Task, state: TaskState) -> Generator[None]:
    """Apply the limits of the task, as `eval` does."""
    with ExitStack() as stack:
        for limit in (
            state._token_limit,  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - inspect_ai enters it too
            state._message_limit,  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            turn_limit(task.turn_limit),
            time_limit(task.time_limit),
            working_limit(task.working_limit),
        ):
            stack.enter_context(limit)
        yield


def _active(
    task: inspect_ai.Task, sample: Sample, state: TaskState, transcript: Transcript
) -> AbstractAsyncContextManager[object]:
    """Make the sample the one that runs, which agents of inspect_ai ask for."""
    return active_sample(
        task=task.name,
        log_location="",
        model=str(state.model),
        sample=sample,
        epoch=1,
        message_limit=task.message_limit,
        token_limit=state.token_limit,
        cost_limit=None,
        time_limit=task.time_limit,
        working_limit=task.working_limit,
        fails_on_error=True,
        transcript=transcript,
        eval_id="agentlearn",
        sample_uuid=state.uuid,
    )


class _Roles(dict[str, Model | list[Model]]):
    """The models of named roles, such as a simulated user: those of the task, else our model without the lessons."""

    def __init__(self, task: inspect_ai.Task, calls: ModelCalls) -> None:
        super().__init__(task.model_roles or {})
        self.other = rollout_model(calls, task.config, lessons=False)

    def get(self, role: str, default: Any = None) -> Any:
        """Return the model of a role."""
        return super().get(role, self.other)


def _enter(task: inspect_ai.Task, sample: Sample, state: TaskState, calls: ModelCalls) -> Transcript:
    """Set what inspect_ai's functions look up in the context of an asyncio task, and return the sample's transcript."""
    transcript = Transcript()
    init_task_context(rollout_model(calls, task.config), _Roles(task, calls), task.config, task.approval)
    init_sample_model_data()
    set_sample_state(state)
    init_transcript(transcript)
    init_subtask_store(state.store)
    init_scoring_context(list[Scorer](task.scorer or ()), Target(sample.target))
    init_sample_assistant_internal()
    return transcript


def _generate(task: inspect_ai.Task, model: Model) -> Any:
    """Return the function with which solvers call the model."""

    async def generate(
        state: TaskState, tool_calls: Literal["loop", "single", "none"] = "loop", **config: Any
    ) -> TaskState:
        cache = config.pop("cache", False) or NOT_GIVEN
        return await task_generate(
            model=model,
            state=state,
            tool_calls=tool_calls,
            cache=cache,
            config=task.config.merge(GenerateConfig(**config)),
        )

    set_task_generate(generate)
    return generate
