"""The generated questions: their pages contain the answers, their paths can be walked, and they are recognised."""

from collections.abc import Iterator
from urllib.parse import parse_qsl

import pytest

from agentlearn.answers.matching import match_answers
from agentlearn_demo.web.question_templates import TEMPLATES, QuestionTemplate
from agentlearn_demo.web.questions import LEARNING, UNSEEN
from agentlearn_demo.web.questions.problem import Problem
from agentlearn_demo.web.sites import NUMBERS, site
from agentlearn_demo.web.sites.site import Site, respond, target
from tests.support.paper_walk import leads, nodes

FAMILIES = {**LEARNING, **UNSEEN}

every_wording = pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.family)


def problems(family: str, numbers: range = NUMBERS) -> Iterator[tuple[Site, Problem]]:
    kind, asked = FAMILIES[family]
    return ((site(kind, number), problem) for number in numbers for problem in asked(number))


@every_wording
def test_the_last_page_of_the_path_contains_the_answer(template: QuestionTemplate) -> None:
    for one, problem in problems(template.family, range(3)):
        texts = [_main(one, at) for at in problem.targets]
        for part in problem.answer.split("; "):
            assert any(part in text for text in texts[-2:]), problem
        assert problem.answer.split("; ")[-1] in texts[-1]


@every_wording
def test_each_page_of_the_path_can_be_reached_from_the_one_before(template: QuestionTemplate) -> None:
    for one, problem in problems(template.family, range(2)):
        searchable = {entry.target for entry in one.entries}
        for before, after in zip(("/", *problem.targets), problem.targets, strict=False):
            path, _, query = before.partition("?")
            linked = {target(*split(at)) for at in leads(respond(one, path, query).html)}
            assert target(*split(after)) in linked | searchable, (before, after)
        assert 1 <= len(problem.targets) <= 5


@every_wording
def test_questions_are_recognised_only_by_their_own_family(template: QuestionTemplate) -> None:
    assert 2 <= len(template.templates) <= 3
    for number, (_, problem) in enumerate(problems(template.family, range(4))):
        for wording in template.templates:
            text = wording.format_map(problem.params)
            assert [other.family for other in TEMPLATES if other.recognise(text) is not None] == [template.family], text
            assert template.recognise(text) == problem.params
            spread = "Please tell me:\n" + text.replace(" ", "\n", number % 9) + "\nThank you."
            assert template.recognise(spread) == problem.params


@every_wording
def test_the_verifier_distinguishes_the_answers_of_a_site(template: QuestionTemplate) -> None:
    *before, one = [problem for _, problem in problems(template.family, range(1))]
    others = [problem for problem in before if problem.answer != one.answer]
    question = template.templates[0].format_map(one.params)
    assert match_answers(one.answer, one.answer, question).status == "equal"
    assert "equal" not in {match_answers(other.answer, one.answer, question).status for other in others}


def split(at: str) -> tuple[str, list[tuple[str, str]]]:
    path, _, query = at.partition("?")
    return path, parse_qsl(query)


def _main(one: Site, at: str) -> str:
    path, _, query = at.partition("?")
    response = respond(one, path, query)
    assert response.status == 200, at
    return nodes(response.html, "main")[0].text()
