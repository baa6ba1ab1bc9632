"""The one domain, and its environment."""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from state_bench.paths import ROOT


@dataclass
class Data:
    bikes: dict[str, Any]

    @classmethod
    def load(cls, path: Path) -> "Data":
        import json

        return cls(json.loads(path.read_text()))

    def deep_copy(self) -> "Data":
        return Data(deepcopy(self.bikes))


class Environment:
    def __init__(self, data: Data, now: str) -> None:
        self.data, self.now = data, now

    @property
    def tool_handlers(self) -> dict[str, Any]:
        return {"rent": self.rent, "look": lambda arguments: self.data.bikes[arguments["bike"]]}

    def rent(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.data.bikes[arguments["bike"]]["rented_by"] = arguments["user"]
        return {"rented": arguments["bike"]}

    def get_full_snapshot(self) -> dict[str, Any]:
        return deepcopy(self.data.bikes)


def _schema(name: str, *texts: str) -> dict[str, Any]:
    shape = {"type": "object", "properties": {one: {"type": "string"} for one in texts}, "required": list(texts)}
    return {"type": "function", "name": name, "description": f"{name} a bike", "parameters": shape}


def get_domain_config(name: str) -> Any:
    return SimpleNamespace(
        name=name,
        environment_class=Environment,
        env_data_class=Data,
        tool_schemas=[_schema("rent", "bike", "user"), _schema("look", "bike")],
        agent_system_prompt="You rent bikes. Today: {now}. Customer: {user_id}.",
        build_simulator_prompt=lambda task, data, user: f"You are {user}. {task.user_simulator.user_sim_context}",
        prompts_dir=ROOT / "domains" / name / "prompts",
        judge_system_prompt="You judge.",
        max_agent_turns=4,
        check_termination=lambda text: "[TASK_DONE]" in text,
    )
