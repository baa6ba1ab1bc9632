"""The benchmark's own agent."""

import json
from typing import Any

from litellm import completion

from tau_bench.envs import Env
from tau_bench.types import RESPOND_ACTION_NAME, Action, Solved


class ToolCallingAgent:
    def __init__(self, tools_info: list[dict[str, Any]], wiki: str, model: str, provider: str) -> None:
        self.wiki = wiki

    def solve(self, env: Env, task_index: int) -> Solved:
        messages: list[Any] = [{"role": "system", "content": self.wiki}, {"content": env.reset(task_index)}]
        while True:
            said = completion(messages=messages, tools=env.tools_info).choices[0].message.model_dump()
            action = Action(name=RESPOND_ACTION_NAME, kwargs={"content": said["content"]})
            if said["tool_calls"]:
                called = said["tool_calls"][0]["function"]
                action = Action(name=called["name"], kwargs=json.loads(called["arguments"]))
            messages.append(said)
            response = env.step(action)
            messages.append({"content": response.observation})
            if response.done:
                return Solved(reward=response.reward)
