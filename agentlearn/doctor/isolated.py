"""Running one check so that neither an error nor a wait in it reaches the others."""

import sys
import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from agentlearn.domain.check_result import CheckResult
from agentlearn.errors import AgentlearnError
from agentlearn.plugins import cause_words

SLOW_S = 3.0
"""After this time the user is told which check is waited for."""
LIMIT_S = 60.0
"""Longest time of one check; the others go on without it."""

Waiting = Callable[[str], None]
"""Called with the name of a check that takes long."""


class Check(NamedTuple):
    """A check by its name."""

    what: str
    """Name of the result where the check itself fails."""
    run: Callable[[], Iterable[CheckResult]]
    limit_s: float = LIMIT_S


def results_of(check: Check, waiting: Waiting, *, slow_s: float = SLOW_S) -> tuple[CheckResult, ...]:
    """Return the results of a check. If it raises anything or takes too long, that is one more result."""
    results: list[CheckResult] = []

    def run() -> None:
        try:
            results.extend(check.run())
        except AgentlearnError as error:
            results.append(CheckResult(what=check.what, state="broken", words=error.message))
        except BaseException as error:  # noqa: BLE001  whatever is wrong with this machine is what is looked for
            words = f"the check failed: {cause_words(error)}"
            results.append(CheckResult(what=check.what, state="broken", words=words))

    stdout = sys.stdout
    thread = threading.Thread(target=run, name=f"check {check.what}", daemon=True)
    thread.start()
    thread.join(slow_s)
    if thread.is_alive():
        waiting(check.what)
        thread.join(max(0.0, check.limit_s - slow_s))
    sys.stdout = stdout  # a plug-in that hangs while it is imported would keep it
    found = tuple(results)
    if thread.is_alive():
        words = f"the check did not finish in {check.limit_s:g} s"
        found += (CheckResult(what=check.what, state="broken", words=words, mend="what it starts or imports hangs"),)
    return found
