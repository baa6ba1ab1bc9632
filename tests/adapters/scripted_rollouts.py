"""One rollout of a domain that an adapter made, with a scripted model, as the runner makes it."""

import asyncio
from collections.abc import Callable

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.config import BudgetOptions, RolloutOptions
from agentlearn.domain.base import Domain
from agentlearn.library.capability import Experiences
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.models.outage import RetryPolicy
from agentlearn.rollout.runner import Finished, RolloutSlot, open_rollouts
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Treatment
from tests.support.stages import RUN, ListJournal

Script = Callable[[list[ModelMessage], AgentInfo], ModelResponse]


def says(text: str) -> Script:
    """A model that always says the same."""
    return lambda messages, info: ModelResponse(parts=[TextPart(text)])


def shown(messages: list[ModelMessage], info: AgentInfo) -> str:
    """All that a model is shown: system prompts, instructions and what the user said."""
    parts = [part for one in messages if isinstance(one, ModelRequest) for part in one.parts]
    texts = [str(part.content) for part in parts if isinstance(part, SystemPromptPart | UserPromptPart)]
    return "\n".join([info.instructions or "", *texts])


def rollouts(
    domain: Domain,
    tasks: list[Task],
    script: Script,
    *,
    library: Library = EMPTY_LIBRARY,
    journal: ListJournal | None = None,
    options: RolloutOptions | None = None,
    retry: int = 1,
    user: Script | None = None,
    judge: Script | None = None,
) -> list[Finished]:
    """Run one rollout of each task at once and return them in order. user, judge: who plays the users and judges; None:
    the same model."""

    def scripted(by: Script) -> Endpoint:
        state = EndpointState(Limiter(8), deadline_s=60, retry=RetryPolicy(attempts=retry))
        return Endpoint(name="scripted", model=FunctionModel(by), endpoint_state=state, simulated=True, url="scripted")

    endpoint, others = scripted(script), {"judge": judge, "user": user}
    more = {role: scripted(by) for role, by in others.items() if by is not None}
    context = CallContext(RUN, journal or ListJournal(), Budget(BudgetOptions()))

    async def go() -> list[Finished]:
        async with open_rollouts(domain, endpoint, options or RolloutOptions(), call_context=context, **more) as opened:
            treatment = Treatment(model="scripted", library=library.version)
            return await asyncio.gather(
                *(
                    opened.one(task, RolloutSlot("test", 0, at), treatment, Experiences(library))
                    for at, task in enumerate(tasks)
                )
            )

    return asyncio.run(go())
