"""What every domain promises, held against the domains that there are."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentlearn.domain.contract import Promise, check_domain_sync, domain_at
from agentlearn.domain.custom import custom_tasks
from agentlearn.domain.templates import new_domain

REWARD = """
def score(task, answer):
    return float(answer is not None and answer.strip() == task.answer)
score.answer_key = str.strip
"""
PROMISES = ("members", "optional", "tasks", "splits", "read", "agent", "prompts", "question")
JUDGED = ("right", "wrong", "no answer", "verify", "answer key")


@dataclass(frozen=True)
class Checked:
    """What became of each promise of one domain."""

    name: str
    promises: tuple[Promise, ...]
    untested: frozenset[str] = frozenset()
    """What cannot be tested of such a domain."""


OWN = frozenset({"tasks", "splits"})


def prices(folder: Path, answers: list[str]) -> Path:
    path = folder / "prices.csv"
    rows = [f"What do {n} plims cost?,{answer}" for n, answer in enumerate(answers, start=1)]
    path.write_text("\n".join(["question,answer", *rows]))
    return path


def math(folder: Path) -> Checked:
    return Checked("math", check_domain_sync(domain_at("math")))


def installed(name: str) -> Callable[[Path], Checked]:
    def checked(folder: Path) -> Checked:
        browser = pytest.importorskip("tests.web.browsers")
        if browser.CHROMIUM is None:
            pytest.skip("no Chromium is installed: see `agentlearn doctor`")
        return Checked(name, check_domain_sync(domain_at(name)))

    return checked


def scaffolded(folder: Path) -> Checked:
    new_domain("plims", folder / "plims")
    sys.path.insert(0, str(folder / "plims"))
    return Checked("scaffolded", check_domain_sync(domain_at("plims_domain:domain")))


def of_file(reward: str, answers: list[str]) -> object:
    def checked(folder: Path) -> Checked:
        domain = custom_tasks("prices", reward)
        untested = OWN | (frozenset(JUDGED) - {"answer key"} if reward == "judge" else frozenset())
        return Checked(reward, check_domain_sync(domain, data=prices(folder, answers)), untested)

    return checked


def of_function(folder: Path) -> Checked:
    (folder / "contract_reward.py").write_text(REWARD)
    sys.path.insert(0, str(folder))
    domain = custom_tasks("prices", "contract_reward:score")
    return Checked("function", check_domain_sync(domain, data=prices(folder, ["3", "6", "9"])), OWN)


def of_gym(folder: Path) -> Checked:
    pytest.importorskip("reasoning_gym")
    domain = custom_tasks("sums", "gym")
    return Checked("gym", check_domain_sync(domain, data=Path("gym:chain_sum?size=3")), OWN)


CASES = {
    "math": math,
    "web": installed("web"),
    "scaffolded": scaffolded,
    "exact": of_file("exact", ["three", "six", "nine"]),
    "number": of_file("number", ["3", "6.5", "1/3"]),
    "choice": of_file("choice", ["A", "(b)", "C."]),
    "contains": of_file("contains", ["three coins", "six coins", "nine coins"]),
    "judge": of_file("judge", ["three", "six", "nine"]),
    "function": of_function,
    "gym": of_gym,
}


SLOW = {"gym": pytest.mark.slow}  # importing its tasks takes two seconds


@pytest.fixture(scope="module", params=[pytest.param(name, marks=SLOW.get(name, ())) for name in CASES])
def checked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checked]:
    """One domain, checked once for all of its promises."""
    path, modules = list(sys.path), set(sys.modules)
    yield CASES[request.param](tmp_path_factory.mktemp("domain"))
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("plims_domain", "contract_reward")):
            del sys.modules[name]


@pytest.mark.parametrize("promise", [*PROMISES, *JUDGED])
def test_every_promise_is_kept(checked: Checked, promise: str) -> None:
    (found,) = [one for one in checked.promises if one.name == promise]
    assert found.state == ("untested" if promise in checked.untested else "ok"), found.words


def test_no_promise_is_left_out(checked: Checked) -> None:
    assert tuple(one.name for one in checked.promises) == (*PROMISES, *JUDGED)
