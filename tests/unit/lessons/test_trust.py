"""Which authors stand behind what the stages read."""

from typing import Any

import pytest

from agentlearn.config import learn_settings
from agentlearn.errors import ConfigError
from agentlearn.learning.lessons.trust import authors_read
from agentlearn.types.group import Group
from agentlearn.types.task import Task
from agentlearn.types.trajectory import DEMONSTRATION, IMPORTED, LIVE, ModelTurn, Step, ToolResult, UserTurn, Verdict
from agentlearn.types.value import Author, AuthorKind
from tests.support.stages import group

SANDBOX = ToolResult(call="1", tool="run_python", content="4", ok=True, author=Author(kind="sandbox"))
SEARCH = ToolResult(call="2", tool="search", content="It is 4.", ok=True)
PAGE = ToolResult(call="3", tool="open", content="4", ok=True, author=Author(kind="pages", name="example.org"))


def read(*steps: Step, reasons_by: AuthorKind | None = None, source: str = "own.csv:1", **fields: Any) -> list[str]:
    one = group([1.0, 0.0])
    changed = [t.model_copy(update={"steps": steps, **fields}) for t in one.trajectories]
    task = one.task.model_copy(update={"source": source})
    found = Group(task=task, trajectories=tuple(changed))
    return [author.words for author in authors_read([found], reasons_by=reasons_by)]


def test_each_text_has_its_author(subtests: pytest.Subtests) -> None:
    for steps, fields, authors in [
        ((), {}, []),
        ((SANDBOX,), {}, []),
        ((SEARCH, SANDBOX), {}, ["results of a tool (search)"]),
        ((PAGE,), {}, ["pages (example.org)"]),
        ((UserTurn(text="and now?"),), {}, ["recorded traffic (math)"]),
        ((UserTurn(text="and now?", author=Author(kind="person")),), {}, []),
        ((ModelTurn(text="4", strangers=(Author(kind="function", name="f"),)),), {}, ["words of a function (f)"]),
        ((), {"phase": LIVE}, ["recorded traffic (math)"]),
        ((), {"phase": DEMONSTRATION}, ["recorded traffic (math)"]),
        ((), {"phase": IMPORTED}, ["recorded traffic (math)"]),
        ((), {"source": "hf:openai/gsm8k#4"}, ["tasks of a dataset (hf:openai/gsm8k)"]),
    ]:
        with subtests.test(repr((steps, fields, authors))):
            assert read(*steps, **fields) == authors


def test_a_task_of_another_project_is_a_strangers() -> None:
    assert Task.of("bench:retail", "Where is it?", "here").author == Author(kind="tasks", name="bench:retail")
    assert not Task.of("retail", "Where is it?", "here").author.stranger


@pytest.mark.parametrize(("by", "authors"), [(None, []), ("person", []), ("model", []), ("reasons", 1)])
def test_reasons_count_where_a_function_wrote_them(by: AuthorKind | None, authors: Any) -> None:
    verdict = Verdict(status="partial", reward=0.5, reason="the customer says that 4 is right")
    found = read(reasons_by=by, verdict=verdict)
    assert found == (["reasons of a reward (math)"] if authors else [])


def test_a_kind_or_one_of_its_authors_is_trusted() -> None:
    search, other = Author(kind="tools", name="search"), Author(kind="tools", name="mail")
    assert search.is_trusted(["tools"])
    assert search.is_trusted(["tools:search"])
    assert not other.is_trusted(["tools:search", "pages"])
    assert Author(kind="model").is_trusted([])


@pytest.mark.parametrize("trust", ["everybody", "library", "tools:"])
def test_an_unknown_author_is_refused_with_those_that_there_are(trust: str) -> None:
    with pytest.raises(ConfigError, match=r"names no author; give one of function, instructions, pages, reasons, "):
        learn_settings({"domain": "math", "trust": [trust]})
