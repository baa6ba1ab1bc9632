"""What a notebook shows of a report, a comparison and a solved problem."""

import re
from html import unescape
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn import LearnReport, compare_sync, solve_sync
from agentlearn.learning.lessons.run_learning import learn_sync
from agentlearn.pages.notebook import CHARACTERS, MOST, result_html
from agentlearn.pages.table import Column, Statement, Table, TableCell
from agentlearn_evals import Comparison
from tests.support.desk import LESSON, TICKETS, desk_agent, right_team

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)> </div> & 'quoted' \"twice\""
_TAGS = re.compile(r"<(/?)([a-z0-9]+)([^<>]*)>")


def shown(result: Any) -> str:
    """What a notebook shows of a result."""
    return cast("str", result._repr_html_())


def only_ours(html: str) -> bool:
    """Whether the HTML has only tags of a summary, no attribute but `style`, and no loose bracket."""
    known = {"div", "p", "bdi", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"}
    tags = _TAGS.findall(html)
    attributes = [one.strip() for _, _, one in tags if one.strip()]
    return (
        {name for _, name, _ in tags} <= known
        and all(re.fullmatch(r'style="[^"<>]*"', one) for one in attributes)
        and not re.search("[<>]", _TAGS.sub("", html))
    )


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> LearnReport:
    return learn_sync(
        desk_agent(), TICKETS, reward=right_team, store=tmp_path_factory.mktemp("a"), epochs=1, group_size=3, seed=1
    )


def test_a_report_shows_the_verdict_first_then_the_library_and_its_lessons(learned: LearnReport) -> None:
    html = shown(learned)
    places = [unescape(html).index(words) for words in ("held out: ", learned.library.version[:8], LESSON)]
    assert places == sorted(places)
    assert learned.notes[0] in unescape(html)
    assert only_ours(html)


def test_hostile_lessons_and_notes_are_escaped(learned: LearnReport) -> None:
    lesson = learned.lessons[0].model_copy(update={"lesson": HOSTILE})
    hostile = learned.model_copy(update={"notes": (HOSTILE,), "lessons": (lesson,)})
    html = shown(hostile)
    assert only_ours(html)
    assert html.count("&lt;script&gt;") == 2


def test_a_comparison_and_a_solved_problem_are_shown_and_escaped(tmp_path: Path) -> None:
    tasks = [(f"{HOSTILE} {number}", "billing") for number in range(3)]
    arms: dict[str, Any] = {"none": None, "learned": [LESSON]}
    found = compare_sync(desk_agent(), tasks, arms=arms, reward=right_team, k=2, store=tmp_path)
    html = shown(found)
    assert only_ours(html)
    assert unescape(html).index(found.contrasts[0].sentence) < html.index("<table>")
    loud = found.model_copy(update={"title": HOSTILE, "warnings": (HOSTILE,), "notes": (HOSTILE,)})
    assert only_ours(shown(loud))
    assert shown(Comparison.model_validate_json(found.model_dump_json())) == html

    def program(task: Any, lessons: str) -> str:
        return HOSTILE

    assert only_ours(shown(solve_sync(program, HOSTILE, store=tmp_path)))
    assert "no answer" in shown(solve_sync(lambda task, lessons: None, "Help", store=tmp_path))


@given(st.text(), st.lists(st.text(), max_size=30))
def test_any_text_makes_only_our_tags_and_a_bounded_page(words: str, entries: list[str]) -> None:
    rows = tuple((TableCell(text=one),) for one in entries)
    table = Table(caption=words, columns=(Column(name=words),), rows=rows)
    html = result_html([Statement(text=words), table, *((words, one) for one in entries)])
    assert only_ours(html)
    assert len(html) < 4 * (MOST + 1) * (CHARACTERS * 12 + 200)
