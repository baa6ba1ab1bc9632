"""`gepa.optimize` from PyPI with its defaults: Pareto candidates, minibatches of 3, until the calls are used up."""

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from scripts.bench.arena.proxy import Proxy, Task, rewritten

_SHOWN = re.compile(r"\n```\n(.*?)\n```\n\nThe following", re.DOTALL)


class _Silent:
    def log(self, *_: Any, **__: Any) -> None:
        """Print nothing."""


def gepa(proxy: Proxy) -> str:
    """Ask GEPA. It ends after the first iteration that uses up the calls, so it may have some more."""
    package: Any = import_module("gepa")
    adapter: Any = import_module("gepa.adapters.default_adapter.default_adapter")
    most, proxy.most = proxy.most, 10 * proxy.most

    def reply(prompt: str) -> str:
        found = _SHOWN.search(prompt)
        assert found is not None, "GEPA asks in other words than those that this reflector knows"
        return f"```\n{rewritten(found[1], proxy.concluded(prompt[found.end() :], found[1]))}\n```"

    def exact(data: Any, response: str) -> Any:
        if proxy.ground.right(response, data["answer"]):
            return adapter.EvaluationResult(1.0, "The generated response is correct.")
        wrong = f"The generated response is incorrect. The correct answer is '{data['answer']}'."
        return adapter.EvaluationResult(0.0, wrong)

    def rows(tasks: Sequence[Task]) -> list[Any]:
        return [{"input": problem, "answer": gold, "additional_context": {}} for problem, gold in tasks]

    def solved(messages: Any) -> str:
        return proxy.solve(messages[0]["content"], messages[1]["content"])

    def reflected(prompt: Any) -> str:
        return proxy.reflect(str(prompt), lambda: reply(str(prompt)))

    def enough(_: Any) -> bool:
        return proxy.calls >= most

    result = package.optimize(
        seed_candidate={"instructions": proxy.ground.start},
        trainset=rows(proxy.ground.train),
        valset=rows(proxy.ground.choose),
        task_lm=solved,
        evaluator=exact,
        reflection_lm=reflected,
        stop_callbacks=enough,
        logger=_Silent(),
        seed=proxy.ground.seed,
    )
    return str(result.best_candidate["instructions"])
