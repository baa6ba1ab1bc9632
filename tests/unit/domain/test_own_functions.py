"""A function of a user's own is found by module:function, by the name that a package announces, and as an object."""

import re
from pathlib import Path

import pytest

from agentlearn.config import LearnSettings, learn_settings
from agentlearn.config.solve_options import function_name
from agentlearn.domain.custom import find_reward
from agentlearn.domain.custom.own_functions import check_function, find_object
from agentlearn.errors import ConfigError
from agentlearn.learning.lessons.lesson_learner import own_rules
from tests.support.broken_packages import group, package


def rule(operation: object, library: object) -> str | None:
    """A rule that refuses nothing."""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_research.py").write_text("seven = 7\ndef judge(task, answer):\n    return 0.5\n")
    names = {"half": "own_research:judge", "seven": "own_research:seven", "gone": "own_research:gone"}
    package(tmp_path, "own-research", group("rewards", names) + group("rules", names))
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_a_package_announces_rewards_and_rules() -> None:
    assert find_reward("half").name == "half"
    assert own_rules(LearnSettings(domain="math", rule="half"))[0].__name__ == "called"
    assert find_reward("half", imports=False).name == "half"
    for name, words in (
        ("seven", "the rule 'seven' is int, not a function"),
        ("gone", "the rule 'gone' of the package 'own-research' (own_research:gone) cannot be loaded"),
        ("hal", "there is no rule 'hal'; give one of gone, half, seven, or your own as module:function"),
        ("own_research:gone", "the rule 'own_research:gone' cannot be loaded: 'own_research'"),
        ("no_such_module:f", "there is no module 'no_such_module'"),
    ):
        with pytest.raises(ConfigError, match=re.escape(words)):
            own_rules(LearnSettings(domain="math", rule=name))
    check_function("no_such_module:f", "loss")  # a plan imports nothing


def test_a_function_of_a_program_is_stored_by_its_name() -> None:
    name = function_name(rule)
    assert name == f"{__name__}:rule"
    assert find_object(str(name), "rule") is rule
    for unnamed in (lambda _: None, Path.exists.__get__(Path())):
        with pytest.raises(ConfigError, match="cannot be found by its name"):
            function_name(unnamed)


def test_a_rule_that_fails_or_gives_something_else_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "own_rules_here.py").write_text(
        "def broken(operation, library):\n    raise ValueError('no table')\n"
        "def yes(operation, library):\n    return True\n"
    )
    monkeypatch.chdir(tmp_path)
    rules = own_rules(learn_settings({"domain": "math", "rule": ["own_rules_here:broken", "own_rules_here:yes"]}))
    for one, words in zip(rules, ("raised ValueError: no table (own_rules_here.py:2)", "gave True for"), strict=True):
        with pytest.raises(ConfigError, match=re.escape(words)):
            one("add", "library")  # type: ignore[arg-type]
    assert own_rules(LearnSettings(domain="math", rule=(rule,)))[0]("add", "library") is None  # type: ignore[arg-type]
