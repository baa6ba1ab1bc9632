"""A taskset of verifiers for the tests: sums, two rewards, and tasks that break."""

from collections.abc import Iterable

import verifiers.v1 as vf

__all__ = ["Sums"]


class SumData(vf.TaskData):
    answer: str
    breaks: str = ""


class SumTask(vf.Task[SumData]):
    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        if self.data.breaks == "setup":
            raise RuntimeError("the setup broke")

    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        if self.data.breaks == "reward":
            raise RuntimeError("the reward broke")
        return 7.0 if self.data.breaks == "range" else float(self.data.answer in trace.last_reply.split())

    @vf.reward(weight=0.25)
    async def brief(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) < 20)


class Sums(vf.Taskset[SumTask]):
    def load(self) -> Iterable[SumTask]:
        for n in range(12):
            breaks = {9: "setup", 10: "reward", 11: "range"}.get(n, "")
            data = SumData(prompt=f"What is {n} + {n}?", system_prompt="Be brief.", answer=str(2 * n), breaks=breaks)
            yield SumTask(data)
