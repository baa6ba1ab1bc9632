"""The generated questions: their pages contain the answers, their paths can be walked, and they are recognised."""

from collections.abc import Iterator
from random import Random
from string import Formatter
from urllib.parse import parse_qsl

import pytest

from agentlearn.answers.matching import match_answers
from agentlearn_web.question_templates import TEMPLATES, QuestionTemplate
from agentlearn_web.questions import LEARNING, UNSEEN
from agentlearn_web.questions.problem import Problem
from agentlearn_web.sites import NUMBERS, site
from agentlearn_web.sites.site import KINDS, Site, respond, target
from tests.support.paper_walk import leads, nodes

FAMILIES = {**LEARNING, **UNSEEN}
FOREIGN = (
    "Who won the match?",
    "How many people work at the university of Norwell?",
    "What is the weight of the Moon?",
    "Which release of Chromium was the first with a headless mode?",
    "What is the default port of a web server?",
    "How much does a parcel of two kilograms weigh?",
    "",
)

every_wording = pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.family)


def problems(family: str, numbers: range = NUMBERS) -> Iterator[tuple[Site, Problem]]:
    kind, asked = FAMILIES[family]
    return ((site(kind, number), problem) for number in numbers for problem in asked(number))


def test_fifteen_families_over_four_kinds_four_of_them_held_out() -> None:
    assert len({template.family for template in TEMPLATES}) == len(TEMPLATES) == 15
    assert {template.family for template in TEMPLATES} == set(FAMILIES)
    assert (len(LEARNING), len(UNSEEN)) == (11, 4)
    assert {kind for kind, _ in FAMILIES.values()} == {kind for kind, _ in LEARNING.values()} == set(KINDS)


@every_wording
def test_each_site_has_several_problems_of_its_families_and_none_twice(template: QuestionTemplate) -> None:
    kind, asked = FAMILIES[template.family]
    for number in NUMBERS:
        found = asked(number)
        assert len(found) >= 8
        assert len({tuple(sorted(one.params.items())) for one in found}) == len(found)
        assert {one.params["site"] for one in found} <= {site(kind, number).name, site(kind, number).name.split()[0]}


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
def test_templates_contain_every_parameter(template: QuestionTemplate) -> None:
    _, problem = next(problems(template.family))
    for wording in template.templates:
        assert {name for _, name, _, _ in Formatter().parse(wording) if name} == set(problem.params)
    assert template.ask(problem.params, Random(0)) in {one.format_map(problem.params) for one in template.templates}


@pytest.mark.parametrize("text", FOREIGN)
def test_other_questions_are_not_recognised(text: str) -> None:
    assert [template.family for template in TEMPLATES if template.recognise(text) is not None] == []


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
