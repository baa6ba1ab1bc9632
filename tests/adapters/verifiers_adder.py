"""A taskset of verifiers for the tests, with a tool. verifiers runs this module as the server of the tool."""

from collections.abc import Iterable
from typing import Any

import verifiers.v1 as vf

__all__ = ["Adding"]


class Adder(vf.Toolset[vf.ToolsetConfig]):
    @vf.tool
    async def add(self, x: int, y: int) -> int:
        """Add two numbers."""
        return x + y


class AddTask(vf.Task[vf.TaskData]):
    @classmethod
    def toolsets(cls, config: Any) -> list[vf.Toolset]:
        return [Adder(vf.ToolsetConfig())]

    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == "It is 42")


class Adding(vf.Taskset[AddTask]):
    def load(self) -> Iterable[AddTask]:
        yield AddTask(vf.TaskData(prompt="What is 20 + 22?"))


if __name__ == "__main__":
    Adder.run()
