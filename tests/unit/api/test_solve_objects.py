"""`solve` with an agent or a function, with and without a reward."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel
from pydantic_ai import TextOutput
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from agentlearn import Task, library_of, read_store, solve_sync
from agentlearn.config import SolveSettings
from agentlearn.config.solve_options import SolveOptions
from agentlearn.domain.base import Work
from agentlearn.errors import AgentlearnError, ConfigError
from tests.support.cases import cases
from tests.support.desk import LESSON, Ticket, desk_agent, desk_model, right_team
from tests.support.loose_options import LOOSE


class City(BaseModel):
    """An output."""

    name: str
    size: int | None = None


@dataclass
class Place:
    """An output that is a dataclass."""

    name: str


def shout(text: str) -> list[str]:
    """Make an output of a text."""
    return text.upper().split()


def replies(payload: Any) -> FunctionModel:
    """Return a model that gives this output."""

    def reply(messages: Any, info: Any) -> ModelResponse:
        if not info.output_tools:
            return ModelResponse(parts=[TextPart(str(payload))])
        return ModelResponse(parts=[ToolCallPart(info.output_tools[-1].name, payload)])

    return FunctionModel(reply)


@pytest.mark.parametrize(
    ("output_type", "payload", "expected", "answer"),
    [
        (City, {"name": "Ulm"}, City(name="Ulm"), '{"name":"Ulm","size":null}'),
        (Place, {"name": "Ulm"}, Place("Ulm"), '{"name":"Ulm"}'),
        (list[str], {"response": ["a", "b"]}, ["a", "b"], '["a","b"]'),
        (bool, {"response": False}, False, "false"),
        (int, {"response": 0}, 0, "0"),
        ([City, Place], {"name": "Ulm"}, Place("Ulm"), '{"name":"Ulm"}'),
        (TextOutput(shout), "so be it", ["SO", "BE", "IT"], '["SO","BE","IT"]'),
        (str, "so be it", "so be it", "so be it"),
    ],
)
def test_the_whole_output_and_its_text_come_back(
    tmp_path: Path, output_type: Any, payload: Any, expected: Any, answer: str
) -> None:
    agent = desk_agent(output_type=output_type)
    solved = solve_sync(agent, "Which city?", model=replies(payload), store=tmp_path)
    assert solved.failure is None, solved.failure
    assert solved.output == expected
    assert type(solved.output) is type(expected)
    assert solved.answer == answer
    assert solved.verdict is not None
    assert (solved.verdict.status, solved.verdict.reason) == ("undecided", "no reward was given")
    assert '"output"' not in solved.model_dump_json()
    with read_store(tmp_path) as reader:
        assert reader.trajectory(solved.id).answer == answer


def test_lessons_are_shown_and_the_reward_judges(tmp_path: Path) -> None:
    solved = solve_sync(
        desk_agent(), ("Invoice 5 is wrong", "billing"), library=[LESSON], reward=right_team, store=tmp_path
    )
    assert solved.verdict is not None
    assert solved.verdict.status == "correct"
    assert solved.treatment.library == library_of([LESSON]).version


def test_a_mapping_and_a_task_give_fields_to_the_deps(tmp_path: Path) -> None:
    seen: list[object] = []
    for problem in ({"problem": "Help", "customer": 7}, Task.of("x", "Help", None, fields={"customer": 7})):
        solve_sync(desk_agent(), problem, deps=lambda task: seen.append(task.fields["customer"]), store=tmp_path)
    assert seen == [7, 7]


async def with_model(task: Task, lessons: str, work: Work) -> Ticket:
    """Answer with the model of the run."""
    return (await desk_agent().run(task.problem, model=work.model)).output


def test_a_function_solves_with_and_without_a_model(tmp_path: Path) -> None:
    def program(task: Task, lessons: str) -> dict[str, str]:
        return {"said": task.problem, "lessons": lessons}

    assert solve_sync(program, "Help", store=tmp_path).output == {"said": "Help", "lessons": ""}
    solved = solve_sync(with_model, "Help", model=desk_model(), store=tmp_path)
    assert isinstance(solved.output, Ticket)
    assert solved.usage.requests == 1
    with pytest.raises(ConfigError, match="no model was given"):
        solve_sync(with_model, "Help", store=tmp_path)


def test_a_rollout_that_fails_is_a_result(tmp_path: Path) -> None:
    def program(task: Task, lessons: str) -> str:
        raise RuntimeError("no database")

    solved = solve_sync(program, "Help", store=tmp_path)
    assert solved.output is None
    assert solved.failure is not None
    assert solved.failure.code == "program_raised"
    assert "no database" in solved.failure.message


def test_a_log_line_about_it_is_short_and_holds_no_variable(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def program(task: Task, lessons: str) -> str:
        customer = "a name that nobody else should read"
        raise RuntimeError(f"no database for {len(customer)} letters")

    caplog.set_level("DEBUG", "agentlearn")
    solve_sync(program, "Help", store=tmp_path)
    (warning,) = [one for one in caplog.records if one.levelname == "WARNING"]
    assert "no database" in warning.getMessage()
    assert len(warning.getMessage()) < 600
    assert "nobody else" not in caplog.text


@pytest.mark.parametrize(
    ("what", "problem", "code"),
    cases(__file__, "bad_input_is_refused_in_one_sentence"),
)
def test_bad_input_is_refused_in_one_sentence(tmp_path: Path, what: Any, problem: Any, code: str) -> None:
    with pytest.raises(AgentlearnError) as refused:
        solve_sync(what, problem, model=TestModel(), store=tmp_path)
    assert refused.value.code == code
    assert list(tmp_path.iterdir()) == []


def test_the_options_are_the_settings_that_have_no_parameter() -> None:
    hints, meant = get_type_hints(SolveOptions), get_type_hints(SolveSettings)
    parameters = {"domain", "problem", "library", "model", "store"}
    assert set(hints) == set(SolveSettings.model_fields) - parameters - {"served_at"}
    assert [name for name in hints if name not in LOOSE and hints[name] != meant[name]] == []
