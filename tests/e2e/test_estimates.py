"""What a run takes lies within a factor of two of its estimate, for models that ship and for one that was measured."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import run
from tests.support.openai_script import Reply, Request, Solver, stage_of
from tests.support.openai_stub import OpenAIStub

Json = Callable[..., Any]
NO_VALIDATION = ("--validation-rollouts", "0")
"""Without the stage of which the estimate gives the most, not what is likely."""


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Json:
    """Run a command and return the JSON object that it printed."""

    def call(*arguments: str) -> Any:
        assert run([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return call


def tokens(stages: Any) -> int:
    """All tokens of an estimate's or a report's stages."""
    return sum(one["tokens_in"] + one["tokens_out"] for one in stages)


def assert_near(fact: int, expected: int) -> None:
    assert expected / 2 <= fact <= expected * 2, f"took {fact:,} tokens, {expected:,} were expected"


class Talkative:
    """A model that writes many words around each answer."""

    def __init__(self, answers: dict[str, str], words: int) -> None:
        self.solver, self.words = Solver(answers=answers, final="{0}".format), words

    def __call__(self, request: Request) -> Reply:
        reply = self.solver(request)
        if stage_of(request) != "solve" or reply.message is None:
            return reply
        spoken = dict(reply.message)
        spoken["content"] = "I think about it. " * (self.words // 4) + f"\nAnswer: {spoken.get('content') or ''}"
        return replace(reply, message=spoken)


@pytest.mark.slow
def test_the_estimate_for_models_that_ship_holds(tmp_path: Path, said: Json) -> None:
    options = ("--limit", "12", "--model", "sim:novice", "--no-eval", "--stop-after", "2", "--revisit-every", "6")
    command = ("learn", "math", *options, *NO_VALIDATION, "--store", str(tmp_path / "store"))
    planned, report = said(*command, "--dry-run"), said(*command)
    assert_near(tokens(report["stages"].values()), tokens(planned["estimate"]["stages"]))
    assert planned["estimate"]["tokens_range"] is None
    again = said(*command, "--dry-run")
    assert "as run " in again["estimate"]["basis"]
    assert_near(tokens(report["stages"].values()), tokens(again["estimate"]["stages"]))


@pytest.mark.slow
def test_after_a_pilot_the_estimate_for_a_service_holds(tmp_path: Path, said: Json) -> None:
    answers = {f"What is {n} plus {n + 1}, in whole numbers?": str(2 * n + 1) for n in range(90)}
    data = tmp_path / "sums.csv"
    with data.open("w", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *answers.items()])
    with OpenAIStub(Talkative(answers, words=2_000)) as stub:
        command = (
            *("learn", str(data), "--reward", "number", "--model", f"{stub.base_url}#stub", "--epochs", "1"),
            *("--limit", "16", "--tools", "none", *NO_VALIDATION, "--store", str(tmp_path / "store")),
        )
        assumed = said(*command, "--dry-run")["estimate"]
        said(*command, "--pilot", "6")
        measured = said(*command, "--dry-run")["estimate"]
        fact = tokens(said(*command)["stages"].values())
    assert_near(fact, tokens(measured["stages"]))
    low, high = assumed["tokens_range"]
    assert low / 2 <= fact <= high * 2, f"took {fact:,} tokens, expected {low:,} to {high:,}"
