"""Learning from walks over a page of a test: the walker and the model that writes lessons are scripted."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.config import BudgetOptions, LearnSettings
from agentlearn.learning.lessons.lesson_learner import LessonLearner
from agentlearn.library.capability import Experiences
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.models.outage import RetryPolicy
from agentlearn.rollout.runner import RolloutSlot, open_rollouts
from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse, listening
from agentlearn.store import open_store
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.group import Group
from agentlearn.types.ids import new_run_id
from agentlearn.types.operation import Rejected
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment
from agentlearn_web import WebDomain
from tests.support.stages import scripted

GROUP_SIZE = 4
Walker = Callable[[list[ModelMessage], AgentInfo], ModelResponse]


@dataclass(frozen=True)
class LearnedFromPages:
    """What learning from the walks gave."""

    library: Library
    refused: tuple[str, ...]
    """Codes of the refused proposals."""
    trajectories: tuple[Trajectory, ...]


async def learn_from_pages(
    folder: Path,
    pages: Callable[[str], HttpResponse],
    walker: Walker,
    reflector: Callable[[str], object],
    questions: Sequence[str],
    *,
    hide_unseen: bool = True,
) -> LearnedFromPages:
    """Walk four times for each question, whose answer is 31, and learn from the groups.

    pages: the response for a path. reflector: the answer to each prompt of the stages that write lessons. hide_unseen:
    whether text that a person cannot see is left out of these prompts, as in every run.
    """

    async def site(request: HttpRequest) -> HttpResponse:
        return pages(request.path)

    async with listening(site) as port, open_store(folder) as store:
        run = new_run_id()
        call_context = CallContext(run, store, Budget(BudgetOptions()))
        start = f"http://{HOST}:{port}/"
        tasks = [Task.of("web", question, "31", source="generated", start=start) for question in questions]
        async with open_rollouts(WebDomain(), _endpoint(walker), call_context=call_context) as rollouts:
            treatment = Treatment(model="walker", library=EMPTY_LIBRARY.version)
            lessons = Experiences(EMPTY_LIBRARY)
            groups: list[Group] = []
            for task in tasks:
                places = [RolloutSlot("epoch-1", g, seed=100 + g) for g in range(GROUP_SIZE)]
                done = [await rollouts.one(task, place, treatment, lessons) for place in places]
                groups.append(Group(task=task, trajectories=tuple(one.trajectory for one in done)))
        walked = tuple(one for group in groups for one in group.trajectories)
        assert {one.reward for one in walked} == {0.0, 1.0}
        learner = LessonLearner(
            library=EMPTY_LIBRARY,
            settings=LearnSettings(domain="web", model="walker"),
            call_context=call_context,
            reflector=scripted(reflector),
            store=store,
            pages=rollouts.domain.pages_seen,
            read_as=rollouts.domain.for_lessons if hide_unseen else (lambda whole: whole),
        )
        update = await learner.update(_each(groups), step="epoch-1/1")
        refused = tuple(one.end.code for one in update.evidence.ended if isinstance(one.end, Rejected))
        return LearnedFromPages(update.library, refused, walked)


def _endpoint(walker: Walker) -> Endpoint:
    endpoint_state = EndpointState(Limiter(8), deadline_s=60, retry=RetryPolicy(attempts=1))
    return Endpoint(
        name="walker", model=FunctionModel(walker), endpoint_state=endpoint_state, simulated=True, url="walker"
    )


async def _each(groups: list[Group]) -> AsyncGenerator[Group]:
    for group in groups:
        yield group
