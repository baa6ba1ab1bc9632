"""One conversation."""

from types import SimpleNamespace
from typing import Any

from state_bench.schemas import StateDiff
from state_bench.simulator import UserSimulator


def run_task(
    task: Any, env_data: Any, user_id: str, client: Any, domain: Any, agent: Any, simulator_client: Any
) -> Any:
    env = domain.environment_class(env_data.deep_copy(), now=task.now)
    before = env.get_full_snapshot()
    simulator = UserSimulator(simulator_client, domain.build_simulator_prompt(task, env_data, user_id))
    said: list[dict[str, Any]] = [{"role": "user", "content": task.opening_message}]
    for turn in range(1, domain.max_agent_turns + 1):
        calls: list[dict[str, Any]] = []
        while True:
            answer = agent.generate_next_turn(system_prompt="", conversation=said, tools=domain.tool_schemas)
            asked = answer["tool_calls"]
            calls += [{**one, "result": env.tool_handlers[one["name"]](one["arguments"])} for one in asked]
            if not answer["tool_calls"]:
                break
        said.append({"role": "assistant", "content": answer["text"], "tool_calls": calls or None})
        if turn < domain.max_agent_turns:
            said.append({"role": "user", "content": simulator.respond(said)})
            if domain.check_termination(said[-1]["content"]):
                break
    return SimpleNamespace(conversation=said, state_diff=StateDiff.compute(before, env.get_full_snapshot()))
