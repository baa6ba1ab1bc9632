"""Whether what a run takes lies in the range of `learn --dry-run`, and what the plans of priced models are priced at.

Runs of several kinds, on a stub or with simulated models. For each: calls and tokens of the run over those of
the estimate, and whether both lie between the ends of its range. Then plans for models with several prices: the dollars
of the plan over those of the price list for calls of that size.

Each row is written to a file as it ends (5 minutes of CPU in all), and taken from it with `--resume`.

    just bench estimates
    just bench estimates --resume
    just bench estimates --only dialogue
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from genai_prices import Usage, calc_price

from agentlearn.config import DEFAULT_STORE
from scripts.bench.found import Found, Row, Target
from tests.support.openai_script import (
    Malformation,
    Malformed,
    Reply,
    Request,
    Script,
    Solver,
    stage_of,
    submit,
    text,
    user_text,
)
from tests.support.openai_stub import OpenAIStub

DOTS = {f"How many dots has a triangle of {n} rows?": str(n * (n + 1) // 2) for n in range(40, 70)}
GARBLED: tuple[Malformation, ...] = ("prose", "cut")
PRICED = ("google:gemini-2.5-pro", "anthropic:claude-sonnet-4-5", "openai:gpt-5.4")
LONG = "word " * 230_000
"""A problem above the size from which these models cost more."""


class Case(NamedTuple):
    """A kind of run."""

    name: str
    script: Script | None
    """What the stub service says; None: the simulated models."""
    words: tuple[str, ...] = ("--reward", "number")
    """Options, or the domain."""
    columns: Mapping[str, str] = {}
    """Further columns of the task file."""
    again: bool = False
    """Whether the run is made twice, so that the second estimate rests on the first run."""


def solver(**given: Any) -> Solver:
    """Return a service that solves the tasks of the file."""
    return Solver(answers=DOTS, final="The answer is {0}".format, **given)


def talking(request: Request) -> Reply:
    """Play the user, who says twice what is wanted, or solve."""
    if "You play a person" in json.dumps(request["messages"]) and stage_of(request) == "solve":
        return text("It is about dots." if len(request["messages"]) < 6 else "<end>")
    return solver(success_rate=0.6)(request)


def judging(request: Request) -> Reply:
    """Judge, or solve."""
    if "unclear" in json.dumps(request.get("tools", "")) or "unclear" in json.dumps(request.get("response_format", "")):
        said = user_text(request)
        return submit(
            request, json.dumps({"reason": "I compared them.", "verdict": "right" if len(said) % 2 else "wrong"})
        )
    return solver()(request)


CASES = (
    Case("own file", solver()),
    Case("own file, again", solver(), again=True),
    Case("all wrong", solver(success_rate=0.0)),
    Case("all right", solver(success_rate=1.0)),
    Case(
        "malformed replies",
        solver(malformed={"compare": Malformed(0.7, GARBLED), "summarise": Malformed(0.7, GARBLED)}),
    ),
    Case("workers", solver(), ("--reward", "number", "--workers", "2")),
    Case("judge", judging, ("--reward", "judge")),
    Case("dialogue", talking, columns={"user_goal": "You want to know the number of dots."}),
    Case("script", solver(success_rate=0.6), columns={"user_script": '["It is about dots.", "Thanks."]'}),
    Case("math", None, ("math", "--model", "sim:novice", "--limit", "20", "--epochs", "2")),
    Case("web", None, ("web", "--limit", "6", "--epochs", "1", "--eval-rollouts", "1")),
)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--only", default="", help="measure only the runs whose names contain this")
    parser.add_argument("--rows", type=Path, default=DEFAULT_STORE / "bench_estimates.jsonl", help="file of the rows")
    parser.add_argument("--resume", action="store_true", help="leave out what the file of the rows has already")


def measure(chosen: argparse.Namespace) -> Found:
    """Estimate and make the runs."""
    file: Path = chosen.rows
    file.parent.mkdir(parents=True, exist_ok=True)
    if not (chosen.resume and file.exists()):
        file.write_text("")
    known = {row.name: row for row in map(Row.model_validate_json, file.read_text().splitlines())}

    def kept(name: str, made: Callable[[], Row]) -> Row:
        if name not in known:
            with file.open("a") as lines:
                lines.write((row := made()).model_dump_json() + "\n")
            known[name] = row
        return known[name]

    rows = [kept(one.name, partial(_case, one)) for one in CASES if chosen.only in one.name]
    inside = [
        Target(what=f"{row.name}: in the range", figure=float(row.figures["inside"] or 0), bound="at_least", limit=1)
        for row in rows
    ]
    plans = {f"{model}{', long' * long}": (model, long) for model in PRICED for long in (False, True)}
    prices = [
        kept(name, partial(_priced, name, *one)) for name, one in plans.items() if chosen.only in f"priced {name}"
    ]
    errors = [abs(float(row.figures["of_list"] or 0) - 1) for row in prices]
    priced = [Target(what="largest error of a price", figure=max(errors), bound="at_most", limit=0.1)] if errors else []
    return Found(rows=(*rows, *prices), targets=(*inside, *priced))


def _case(case: Case) -> Row:
    with tempfile.TemporaryDirectory() as folder, OpenAIStub(case.script) as stub:
        words = case.words
        if case.script is not None:
            words = (
                _file(Path(folder), DOTS, case.columns),
                *words,
                "--model",
                f"{stub.base_url}#any",
                "--epochs",
                "2",
            )
        learn = ("learn", *words, "--yes", "--store", f"{folder}/store", "--from", "none")
        if case.again:
            _json(*learn)
        plan, report = _json(*learn, "--dry-run")["estimate"], _json(*learn)
    spent, expected = _sums(report["stages"].values()), _sums(plan["stages"])
    least, most = _sums(plan["least"]["stages"]), _sums(plan["most"]["stages"])
    inside = all(low <= one <= high for low, one, high in zip(least, spent, most, strict=True))
    names = ("calls", "tokens_in", "tokens_out")
    ratios = {f"{name}_said": said / one for name, said, one in zip(names, expected, spent, strict=True)}
    ends = {
        f"{end}_{name}": one
        for end, all_ in (("least", least), ("most", most))
        for name, one in zip(names, all_, strict=True)
    }
    return Row(name=case.name, figures={"inside": inside, **dict(zip(names, spent, strict=True)), **ratios, **ends})


def _sums(stages: Any) -> list[int]:
    return [sum(one[name] for one in list(stages)) for name in ("calls", "tokens_in", "tokens_out")]


def _priced(title: str, model: str, long: bool) -> Row:
    tasks = {f"{LONG if long else ''}{problem}": answer for problem, answer in list(DOTS.items())[: 4 if long else 30]}
    with tempfile.TemporaryDirectory() as folder:
        words = (_file(Path(folder), tasks, {}), "--reward", "number", "--model", model, "--store", f"{folder}/store")
        plan = _json("learn", *words, "--dry-run")["estimate"]
    provider, _, name = model.partition(":")
    listed = 0.0
    for one in filter(lambda stage: stage["calls"], plan["stages"]):
        size, written = one["tokens_in"] / one["calls"], one["tokens_out"] / one["calls"]
        usage = Usage(input_tokens=round(size), output_tokens=round(written))
        listed += one["calls"] * float(calc_price(usage, model_ref=name, provider_id=provider).total_price)
    dollars = sum(one["cost_usd"] for one in plan["stages"])
    return Row(name=title, figures={"dollars": dollars, "of_list": dollars / listed})


def _file(folder: Path, tasks: Mapping[str, str], columns: Mapping[str, str]) -> str:
    path = folder / "tasks.jsonl"
    rows = ({"problem": problem, "answer": answer, **columns} for problem, answer in tasks.items())
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def _json(*arguments: str) -> dict[str, Any]:
    command: Sequence[str] = [sys.executable, "-m", "agentlearn", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
    if done.returncode:
        raise RuntimeError(f"{' '.join(chain(arguments))[:300]}: {done.stderr[-600:]}")
    return json.loads(done.stdout)
