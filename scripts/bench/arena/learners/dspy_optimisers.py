"""Optimisers of DSPy from PyPI: MIPROv2 (instructions and examples) and BootstrapFewShotWithRandomSearch (examples).

The program is `dspy.Predict("order -> answer")`. Its examples become lines of the text, as a person would write them.
"""

import os
import re
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from scripts.bench.arena.proxy import Proxy, rewritten

_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ##|\n\nRespond with|\Z)", re.DOTALL)
_OBJECTIVE = "your objective is:"


def few_shot(proxy: Proxy) -> str:
    """BootstrapFewShotWithRandomSearch: its 16 examples at most; as many candidates as the calls allow, 16 at most."""
    candidates = max(1, min(16, (proxy.left - 60) // len(proxy.ground.choose) - 3))
    dspy = _configured(proxy)
    optimiser = dspy.BootstrapFewShotWithRandomSearch(
        metric=_metric(proxy), num_candidate_programs=candidates, num_threads=1
    )
    return _text(
        optimiser.compile(_program(proxy, dspy), trainset=_rows(proxy, "train"), valset=_rows(proxy, "choose"))
    )


def mipro(proxy: Proxy) -> str:
    """MIPROv2 with the 12 candidates of `auto="medium"`; trials on all tasks to choose by, as the calls allow."""
    trials = max(1, (proxy.left - 140) // len(proxy.ground.choose) - 1)
    dspy = _configured(proxy)
    import_module("optuna").logging.set_verbosity(40)
    optimiser = dspy.MIPROv2(metric=_metric(proxy), auto=None, num_candidates=12, num_threads=1, seed=proxy.ground.seed)
    made = optimiser.compile(
        _program(proxy, dspy),
        trainset=_rows(proxy, "train"),
        valset=_rows(proxy, "choose"),
        num_trials=trials,
        minibatch=False,
        seed=proxy.ground.seed,
    )
    return _text(made)


def _configured(proxy: Proxy) -> Any:
    dspy: Any = import_module("dspy")

    class Model(dspy.BaseLM):
        """The arena's model as DSPy asks it."""

        def forward(self, prompt: Any = None, messages: Any = None, **_: Any) -> Any:
            system, *rest = [str(one["content"]) for one in messages]
            reply = _reply(proxy, system, rest)
            message = SimpleNamespace(content=reply, tool_calls=None, reasoning_content=None)
            choices = [SimpleNamespace(message=message, finish_reason="stop", logprobs=None)]
            return SimpleNamespace(choices=choices, usage={}, model="arena", _hidden_params={})

    dspy.configure(lm=Model(model="arena", cache=False), warn_on_type_mismatch=False)
    dspy.disable_logging()
    os.environ["TQDM_DISABLE"] = "1"
    proxy.most *= 10  # it would go on without answers; the number of candidates keeps to the calls
    return dspy


def _program(proxy: Proxy, dspy: Any) -> Any:
    return dspy.Predict(dspy.Signature("order -> answer", proxy.ground.start))


def _rows(proxy: Proxy, part: str) -> list[Any]:
    dspy: Any = import_module("dspy")
    return [dspy.Example(order=one, answer=gold).with_inputs("order") for one, gold in getattr(proxy.ground, part)]


def _metric(proxy: Proxy) -> Any:
    def right(example: Any, made: Any, trace: Any = None) -> bool:
        return proxy.ground.right(str(made.answer), example.answer)

    return right


def _reply(proxy: Proxy, system: str, rest: list[str]) -> str:
    wanted = re.findall(r"\[\[ ## (\w+) ## \]\]", rest[-1].rpartition("Respond with")[2])
    asked, *_ = shown = [dict(_FIELD.findall(one)) for one in reversed(rest)]
    if "answer" in wanted:
        pairs = zip(shown[:0:-2], shown[-2:0:-2], strict=True)
        lines = [_line(one["order"].strip(), said["answer"].strip()) for one, said in pairs if "answer" in said]
        text = "\n".join([_dedented(system.partition(_OBJECTIVE)[2]), *lines])
        fields = {"answer": proxy.solve(text, asked["order"].strip())}
    else:
        prompt, basic = "\n".join([system, *rest]), _dedented(asked.get("basic_instruction", ""))
        proposes = "proposed_instruction" in wanted
        said = proxy.reflect(
            prompt, lambda: rewritten(basic, proxy.concluded(prompt, basic)) if proposes else "Orders and routes."
        )
        fields = {one: said for one in wanted if one != "completed"}
    return "".join(f"[[ ## {name} ## ]]\n{words}\n\n" for name, words in fields.items()) + "[[ ## completed ## ]]"


def _dedented(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines()) + "\n"


def _line(order: str, answer: str) -> str:
    return f"{order.rstrip('.')}. -> {answer}"


def _text(program: Any) -> str:
    lines = [_line(one["order"], one["answer"]) for one in program.demos]
    return "\n".join([str(program.signature.instructions), *lines])
