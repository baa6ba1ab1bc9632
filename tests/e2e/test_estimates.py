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
@pytest.mark.parametrize(
    "options",
    [
        ("--limit", "5", "--epochs", "1"),
        ("--limit", "20", "--model", "sim:novice", "--no-eval", "--stop-after", "2", "--revisit-every", "6"),
    ],
    ids=" ".join,
)
def test_the_estimate_for_models_that_ship_holds(options: tuple[str, ...], tmp_path: Path, said: Json) -> None:
    command = ("learn", "math", *options, *NO_VALIDATION, "--store", str(tmp_path / "store"))
    planned, report = said(*command, "--dry-run"), said(*command)
    assert_near(tokens(report["stages"].values()), tokens(planned["estimate"]["stages"]))
    assert planned["estimate"]["tokens_range"] is None
    again = said(*command, "--dry-run")
    assert "as run " in again["estimate"]["basis"]
    assert_near(tokens(report["stages"].values()), tokens(again["estimate"]["stages"]))


@pytest.mark.slow
def test_the_forecast_of_a_comparison_holds(tmp_path: Path, said: Json) -> None:
    command = (
        "compare",
        "none",
        "none,temperature=0.2",
        "--domain",
        "math",
        "--k",
        "2",
        "--store",
        str(tmp_path / "s"),
    )
    for limit in ("4", "20"):
        planned = said(*command, "--limit", limit, "--dry-run")
        made = sum(one["new"]["tokens_in"] + one["new"]["tokens_out"] for one in planned["arms"])
        before = _stored(tmp_path / "s")
        said(*command, "--limit", limit)
        assert_near(_stored(tmp_path / "s") - before, made)


def _stored(store: Path) -> int:
    from agentlearn.store import read_store

    if not store.exists():
        return 0
    with read_store(store) as reader:
        return sum(
            tokens_of.tokens_in + tokens_of.tokens_out
            for row in reader.runs()
            for tokens_of in reader.stage_totals(row.run)
        )


@pytest.mark.slow
@pytest.mark.parametrize(("words", "limit", "tools"), [(8, 60, "python"), (2_000, 16, "none")])
def test_after_a_pilot_the_estimate_for_a_service_holds(
    words: int, limit: int, tools: str, tmp_path: Path, said: Json
) -> None:
    answers = {f"What is {n} plus {n + 1}, in whole numbers?": str(2 * n + 1) for n in range(90)}
    data = tmp_path / "sums.csv"
    with data.open("w", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *answers.items()])
    with OpenAIStub(Talkative(answers, words)) as stub:
        command = (
            *("learn", str(data), "--reward", "number", "--model", f"{stub.base_url}#stub", "--epochs", "1"),
            *("--limit", str(limit), "--tools", tools, *NO_VALIDATION, "--store", str(tmp_path / "store")),
        )
        assumed = said(*command, "--dry-run")["estimate"]
        said(*command, "--pilot", "6")
        measured = said(*command, "--dry-run")["estimate"]
        fact = tokens(said(*command)["stages"].values())
    assert_near(fact, tokens(measured["stages"]))
    low, high = assumed["tokens_range"]
    assert low / 2 <= fact <= high * 2, f"took {fact:,} tokens, expected {low:,} to {high:,}"
