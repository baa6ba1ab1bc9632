"""Tasks of reasoning-gym, behind a stand-in for it."""

from collections.abc import Iterator

import pytest

from agentlearn.data import read_tasks, rows, scorer
from agentlearn.data.gym import _entries, could_call
from agentlearn.errors import DataError, MissingExtra, VerifierError
from tests.unit.data.online import Sums, absent, gym


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Sums]]:
    _entries.cache_clear()
    yield gym(monkeypatch)
    _entries.cache_clear()


def test_entries_become_tasks_that_know_how_to_be_made_again(created: list[Sums]) -> None:
    tasks = read_tasks("gym:chain_sum?size=3&seed=2", domain="math", split="train")
    assert [(task.problem, task.answer, task.family) for task in tasks] == [
        ("0 + 5 = ?", "5", "chain_sum"),
        ("1 + 8 = ?", "9", "chain_sum"),
        ("2 + 2 = ?", "4", "chain_sum"),
    ]
    assert tasks[1].source == "gym:chain_sum?seed=2&size=3#1"
    again = read_tasks("gym:chain_sum?seed=2&size=3", domain="math", split="train")
    assert again == tasks


def test_the_tasks_own_scorer_judges(created: list[Sums]) -> None:
    score = scorer("gym:chain_sum?seed=2&size=3#1")
    assert [score(answer) for answer in ("9", "4 + 5", "8", "1", "", None)] == [1.0, 1.0, 0.5, 0.0, 0.0, 0.0]
    assert created[-1].scored == ["4 + 5", "8", "1"]


@pytest.mark.parametrize(
    "answer",
    [
        "__import__('os').system('id')",
        "exec('1')",
        "(exec)('1')",
        "[exec][0]('1')",
        "().real",
        "x . subs",
        "ｅxec('1')",
        "sympify('1')",
        "'{}'.format(1)",
    ],
)
def test_an_answer_that_could_run_code_reaches_no_scorer(created: list[Sums], answer: str) -> None:
    score = scorer("gym:chain_sum?seed=2&size=3#1")
    with pytest.raises(VerifierError, match="could run code in the scorer of 'gym:chain_sum"):
        score(answer)
    assert not created[-1].scored


@pytest.mark.parametrize(
    "answer", ["-3*X**3*sin(X) + sqrt(2) + C", "0.25", "Alice, then Bob.", "(0, 1), (2, 3)", "7/2"]
)
def test_ordinary_answers_call_nothing(answer: str) -> None:
    assert not could_call(answer)


def test_size_and_seed_have_defaults_and_options_are_passed_on(created: list[Sums]) -> None:
    assert len(list(rows("gym:chain_sum"))) == 100
    list(rows("gym:chain_sum?size=1&most=5"))
    assert (created[-1].size, created[-1].seed, created[-1].most) == (1, 0, 5)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("gym:", "'gym:' does not name a task; write 'gym:TASK', such as 'gym:chain_sum?size=100&seed=0'"),
        ("gym:a?size", "'gym:a?size' has the options 'size'; write them as 'size=100&seed=0'"),
        ("gym:a?size=0", "'gym:a?size=0' has the size '0'; give a whole number from 1"),
        ("gym:a?seed=x", "'gym:a?seed=x' has the seed 'x'; give a whole number from 0"),
        ("gym:no_such", "'gym:no_such?seed=0&size=100' cannot be created (Dataset 'no_such' not registered); check"),
    ],
)
def test_refused_tasks(created: list[Sums], source: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        list(rows(source))
    assert str(caught.value).startswith(sentence)


def test_without_reasoning_gym(monkeypatch: pytest.MonkeyPatch) -> None:
    _entries.cache_clear()
    absent(monkeypatch, "reasoning_gym")
    with pytest.raises(MissingExtra) as caught:
        list(rows("gym:chain_sum"))
    assert str(caught.value) == "reading 'gym:chain_sum' needs reasoning-gym: pip install 'agentlearn-lib[gym]'"
