"""Which parts of a usual request a model accepts. What it refuses is left out, and the request is made again."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agentlearn.domain.check_result import CheckResult
from agentlearn.errors import EndpointError
from agentlearn.models.call_settings import CallSettings
from agentlearn.models.refusal import SYSTEM

OPTIONS = {"temperature": "--temperature none", "seed": "--no-seed", SYSTEM: "--fold-system"}
"""Parts of a request that can be left out, and the option that does it."""
_WORDS = {"temperature": "a temperature", "seed": "a seed", SYSTEM: "instructions"}
_REQUEST_REFUSED = frozenset({"endpoint_400", "endpoint_422"})

T = TypeVar("T")
AskWithout = Callable[[Collection[str]], Awaitable[T]]
"""Asks without these parts. Raises EndpointError."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a model accepts."""

    left_out: frozenset[str]
    """Parts that it refuses, by their names in `OPTIONS`."""

    def result(self, model: str, never_sent: Collection[str] = ()) -> CheckResult:
        """Return the line of the report, with the options to use. never_sent: what the client leaves out."""
        refused = [name for name in OPTIONS if name in self.left_out and name not in never_sent]
        sent = [words for name, words in _WORDS.items() if name not in self.left_out and name not in never_sent]
        unsent = [words for name, words in _WORDS.items() if name in never_sent]
        parts = [
            f"accepts {_listed(sent)}" if sent and not refused else "",
            f"refuses the {_listed(refused, 'the ')}" if refused else "",
            f"its client sends no {_listed([one.removeprefix('a ') for one in unsent])}" if unsent else "",
        ]
        words = "; ".join(filter(None, parts))
        if not refused:
            return CheckResult(what="parameters", state="ok", words=words)
        options = " ".join(OPTIONS[name] for name in refused)
        return CheckResult(what="parameters", state="note", words=words, mend=f"use --model '{model}' {options}")


def _listed(names: Sequence[str], article: str = "") -> str:
    *first, last = names
    return f"{', '.join(first)} and {article}{last}" if first else last


def settings_without(parts: Collection[str]) -> CallSettings:
    """Return the settings of an endpoint whose requests have none of these parts."""
    return CallSettings(left_out=frozenset(parts) - {SYSTEM}, fold_system=SYSTEM in parts)


async def accepted(ask: AskWithout[T]) -> tuple[Accepted, T]:
    """Find out what a model accepts. Return the answer to the request with everything that it accepts.

    A model that accepts everything is asked once. Raises EndpointError when it answers in no case.
    """
    left_out = frozenset[str]()
    while True:
        try:
            return Accepted(left_out), await ask(left_out)
        except EndpointError as error:
            named = frozenset(error.refused) & OPTIONS.keys() - left_out
            if named:
                left_out |= named
                continue
            if error.code not in _REQUEST_REFUSED or left_out == OPTIONS.keys():
                raise
            return await _one_by_one(ask)


async def _one_by_one(ask: AskWithout[T]) -> tuple[Accepted, T]:
    """Ask without all parts, then with each alone: the service does not name what it refuses."""
    everything, refused = frozenset(OPTIONS), set[str]()
    answer = await ask(everything)
    for name in OPTIONS:
        try:
            answer = await ask(everything - {name})
        except EndpointError:
            refused.add(name)
    return Accepted(frozenset(refused)), answer
