"""The desk: tools over a database of loans."""

from typing import Any

from tau_bench.envs.user import LLMUserSimulationEnv
from tau_bench.types import RESPOND_ACTION_NAME, Action, Outputs, Response, Result, Task

READERS = ("ann_1", "ben_2", "cleo_3", "dan_4", "eve_5", "fay_6")


def tasks(split: str) -> list[Task]:
    """Of every reader: one gives a book back, the next lends one and wants to know when it is due."""
    made: list[Task] = []
    for at, reader in enumerate(READERS):
        lends = at % 2
        act = Action(name="lend" if lends else "give_back", kwargs={"reader": reader, "book": f"{split} {at}"})
        wish = f"{'borrow' if lends else 'return'} the book '{split} {at}'"
        made.append(
            Task(
                user_id=reader,
                actions=[act],
                instruction=f"You are {reader}. You want to {wish}.",
                outputs=["1 week"] * lends,
            )
        )
    return made


def _lend(data: dict[str, Any], reader: str, book: str) -> str:
    data["loans"][book] = reader
    return "lent for 1 week"


def _give_back(data: dict[str, Any], reader: str, book: str) -> str:
    del data["loans"][book]
    return "returned"


def _ask_the_head(data: dict[str, Any], why: str) -> str:
    return "the head comes"


TOOLS = {"lend": _lend, "give_back": _give_back, "ask_the_head": _ask_the_head}


def _described(name: str) -> dict[str, Any]:
    texts = ("why",) if name == "ask_the_head" else ("reader", "book")
    schema = {"type": "object", "properties": {one: {"type": "string"} for one in texts}, "required": list(texts)}
    return {"type": "function", "function": {"name": name, "description": f"{name} at the desk", "parameters": schema}}


class Env:
    """A desk with one task."""

    def __init__(self, env: str, user_strategy: str, split: str, index: int) -> None:
        self.split, self.tasks = split, tasks(split)
        self.task, self.data, self.actions = self.tasks[index], self._loans(), list[Action]()
        self.tools_info = [_described(name) for name in TOOLS]
        self.terminate_tools, self.wiki = ["ask_the_head"], f"# The {env} desk\n\nHelp readers."
        self.user: Any = None if user_strategy == "human" else LLMUserSimulationEnv()

    def _loans(self) -> dict[str, Any]:
        return {"loans": {f"{self.split} {at}": reader for at, reader in enumerate(READERS) if not at % 2}}

    def reset(self, task_index: int) -> str:
        self.task, self.data, self.actions = self.tasks[task_index], self._loans(), []
        return self.user.reset(instruction=self.task.instruction)

    def step(self, action: Action) -> Response:
        self.actions.append(action)
        done = action.name in self.terminate_tools
        if action.name == RESPOND_ACTION_NAME:
            text = self.user.step(action.kwargs["content"])
            done = "###STOP###" in text
        else:
            try:
                text = TOOLS[action.name](self.data, **action.kwargs)
            except Exception as error:
                text = f"Error: {error}"
        return Response(observation=text, reward=self.calculate_reward().reward if done else 0.0, done=done)

    def calculate_reward(self) -> Result:
        found, self.data = self.data, self._loans()
        for action in self.task.actions:
            TOOLS[action.name](self.data, **action.kwargs)
        said = [one.kwargs["content"] for one in self.actions if one.name == RESPOND_ACTION_NAME]
        outputs = {one: any(one in text for text in said) for one in self.task.outputs}
        right = found == self.data and all(outputs.values())
        return Result(reward=float(right), info=Outputs(outputs=outputs) if outputs else None)


def get_env(
    env_name: str,
    user_strategy: str,
    user_model: str,
    task_split: str,
    user_provider: str | None = None,
    task_index: int = 0,
) -> Env:
    return Env(env_name, user_strategy, task_split, task_index)
