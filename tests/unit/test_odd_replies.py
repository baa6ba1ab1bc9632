"""A rollout ends with a stored result whatever its model's reply contains."""

import asyncio
import json
from typing import Any

import pytest

from agentlearn.config import BudgetOptions, CallOptions, RolloutOptions
from agentlearn.library.capability import Experiences
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import open_service
from agentlearn.models.outage import RetryPolicy
from agentlearn.rollout.runner import Rollouts, RolloutSlot
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.trajectory import Treatment
from tests.support.raw_http import scripted
from tests.support.stages import RUN, ListJournal
from tests.support.toy_domain import ToyDomain
from tests.unit.models.test_garbled_replies import COMPLETION, VALUES, Bodies, changed, places

DEEP_ARGUMENTS = '{"n":' * 3000 + "1" + "}" * 3000
ARGUMENTS = ("", "{}", "[]", "null", "7", '{"n": null}', '{"n": 1e400}', '{"n": "\\ud800"}', '{"n": 1', DEEP_ARGUMENTS)


async def outcomes(bodies: list[bytes]) -> list[str]:
    """Run one rollout for each body, which the service sends in reply to each request."""
    toy, service, ended = ToyDomain(), Bodies(), list[str]()
    task = toy.tasks("train", seed=0, limit=5)[4]
    async with scripted(service) as port:
        service.base_url = f"http://127.0.0.1:{port}/v1"
        retry = RetryPolicy(attempts=1)
        async with open_service("stub", service, CallOptions(), retry=retry) as endpoint:
            for service.body in bodies:
                context = CallContext(RUN, ListJournal(), Budget(BudgetOptions()))
                rollouts = Rollouts(context, toy, endpoint, RolloutOptions(max_turns=2))
                treatment = Treatment(model="stub", library=EMPTY_LIBRARY.version, temperature=0.5)
                slot = RolloutSlot("epoch-1", 0, seed=1)
                finished = await rollouts.one(task, slot, treatment, Experiences(EMPTY_LIBRARY))
                finished.trajectory.model_dump_json().encode()
                ended.append(finished.trajectory.outcome)
    return ended


@pytest.mark.slow
def test_a_reply_that_is_wrong_in_one_place() -> None:
    wrong = [changed(path, text).encode() for path in places(COMPLETION) for text in (None, *VALUES)][::3]
    ended = asyncio.run(outcomes(wrong))
    assert {"undecided", "failed"} <= set(ended)


def test_a_tool_call_with_odd_names_and_arguments() -> None:
    def body(name: str, arguments: str, identity: Any) -> bytes:
        call = {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call, call]}
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        return json.dumps({**COMPLETION, "choices": [choice]}).encode()

    names = ("", "no_such_tool", "x" * 300, "\ud800", "\x00", "final_result")
    odd = [body("double", one, identity) for one in ARGUMENTS for identity in ("t1", "", None, "\ud800")]
    bodies = [*odd, *(body(name, one, "t1") for name in names for one in ("{}", "7", '{"n": 1'))]
    ended = asyncio.run(outcomes(bodies))
    assert len(ended) == len(bodies)
    assert "ok" not in ended
