"""Reads results that other projects published, one small reader for each layout of files.

A file is written `PATH`, or `PATH#PART` where a file holds several attempts; what a part is depends on the layout.
"""

import json
import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from agentlearn.answers.reply import boxed, final_answer_in, single_choice
from agentlearn.data.files import file_rows
from agentlearn.errors import DataError
from agentlearn.types.ids import content_hash
from agentlearn.types.trajectory import Verdict
from agentlearn.types.value import Value
from agentlearn_math.verify import judge_exactly


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """The result of one attempt at one task."""

    task: str
    score: float | None
    """0 to 1; None when the attempt was not judged."""
    error: str = ""
    """Stable code of why there is no score, or no answer."""
    problem: str = ""
    """Text of the task, where two tasks with one text are to count as one."""
    cluster: str = ""
    """Template that the task was made from, where the file names it."""


class RowColumns(Value):
    """Where the rows of one source hold what."""

    task: str
    score: tuple[str, ...]
    """The first of these that a row has."""
    within: str = ""
    """Key of the list of rows, in a file that holds one object."""
    unjudged: Mapping[str, tuple[str, ...]] = {}
    """Values, by column, of rows whose score says nothing, such as a judge that could not be reached."""


_ADVICE = "check out the commit that the page names (--clone-commands prints how)"
_BEFORE_REFLECTIONS = "You have attempted to answer"
"""What follows the question in the prompt of a later trial, in reflexion's logs."""
RecordingLayout = Literal["answers", "rows", "trials", "predictions", "phases", "outcomes"]


def recorded_results(
    layout: RecordingLayout, file: Path, part: str, columns: RowColumns | None
) -> tuple[RecordedResult, ...]:
    """Return the results in one file, in its order. Raises DataError."""
    if not file.is_file():
        raise DataError(f"{str(file)!r} is missing; {_ADVICE}", code="recording_missing")
    try:
        found = tuple(_rows(file, part, columns) if columns else _READERS[layout](file, part))
    except (KeyError, TypeError, ValueError, IndexError, sqlite3.Error) as error:
        what = f"{type(error).__name__}: {error}"
        words = f"{str(file)!r} is not laid out as {layout!r} ({what}); {_ADVICE}"
        raise DataError(words, code="recording_layout") from error
    if not found:
        of = f" of part {part!r}" if part else ""
        raise DataError(f"{str(file)!r} holds no result{of}; {_ADVICE}", code="recording_empty")
    return found


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _answers(file: Path, part: str) -> Iterator[RecordedResult]:
    """JSON lines of dynamic-cheatsheet with `raw_input`, `target` and the model's `final_output`.

    A question that was asked again counts with its last row. part: `number` or `choice`, how an answer is judged.
    """
    last = {str(row["raw_input"]).strip(): row for row in _documents(file)}
    for text, row in last.items():
        task, target = f"{file.parent.name}/{content_hash('task', text)[:12]}", str(row["target"])
        answer = final_answer_in(str(row["final_output"] or ""))
        if part == "choice":
            letter = single_choice(answer or "")
            score = float(letter is not None and letter == single_choice(target))
            yield RecordedResult(task, score, "" if letter else "no_answer", text)
            continue
        verdict = judged_answer(answer, target)
        if verdict.reward is None:
            yield RecordedResult(task, None, "not_comparable", text)
        else:
            yield RecordedResult(task, verdict.reward, "no_answer" if verdict.status == "no_answer" else "", text)


def judged_answer(answer: str | None, target: str) -> Verdict:
    """Return our verifier's verdict on a final answer; undecided also when it would take algebra."""
    found = judge_exactly(answer and (boxed(answer) or answer), target)
    return found or Verdict(status="undecided", reward=None, reason="it needs algebra")


def _rows(file: Path, part: str, columns: RowColumns) -> Iterator[RecordedResult]:
    """Rows of CSV or JSON. part: `COLUMN=VALUE,COLUMN=VALUE`, the rows that count; empty: all."""
    wanted = dict(one.split("=", 1) for one in part.split(",")) if part else {}
    for row in _tables(file, columns.within):
        if any(str(row[name]) != value for name, value in wanted.items()):
            continue
        lost = any(str(row.get(name)) in values for name, values in columns.unjudged.items())
        name = next((name for name in columns.score if name in row), columns.score[0])
        score = None if lost else _number(row[name])
        yield RecordedResult(str(row[columns.task]), score, "not_judged" if score is None else "")


def _tables(file: Path, within: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a file as they stand, or those in a list of its only object."""
    for row in file_rows(file):
        if row.fault:
            raise ValueError(row.fault)
        yield from cast("list[dict[str, Any]]", row.fields[within]) if within else (row.fields,)


def _number(cell: object) -> float:
    """Return a score. Raises ValueError for what is neither a finite number nor true or false."""
    found = float({"true": 1, "false": 0}.get(str(cell).casefold(), str(cell)))
    if not math.isfinite(found):
        raise ValueError(f"the score {cell!r} is not finite")
    return found


def _trials(file: Path, part: str) -> Iterator[RecordedResult]:
    """Text logs of reflexion's HotpotQA runs: sections of right, wrong and halted agents per trial. part: the trial."""
    found: dict[str, float] = {}
    trial = section = question = ""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if begun := re.match(r"BEGIN TRIAL (\d+)$", line):
                trial = begun[1]
            elif begun := re.match(r"-+ BEGIN (\w+) AGENTS", line):
                section = begun[1]
            elif line.startswith("Question: "):
                question = line.removeprefix("Question: ").partition(_BEFORE_REFLECTIONS)[0].strip()
            elif line.startswith("Correct answer: ") and trial == part and question:
                # An agent that ran out of steps can stand in two sections; the sections of a trial start with the right
                # ones, so the first counts.
                found.setdefault(question, float(section == "CORRECT"))
                question = ""
    yield from (RecordedResult(content_hash("task", one)[:12], score, problem=one) for one, score in found.items())


def _predictions(file: Path, part: str) -> Iterator[RecordedResult]:
    """One object of textgrad: question, `predictions` in their order, and the right `answer`. part: an index."""
    for question, entry in json.loads(file.read_text(encoding="utf-8")).items():
        said = final_answer_in(entry["predictions"][int(part)])
        letter = single_choice(said or "")
        task = f"{file.stem}/{content_hash('task', question)[:12]}"
        yield RecordedResult(task, float(letter == entry["answer"]), "" if letter else "no_answer", question)


def _phases(file: Path, part: str) -> Iterator[RecordedResult]:
    """SQLite of OpenSpace: what its own analysis said of each run. part: the phase, at the end of a run's id."""
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as opened:
        rows: Iterable[tuple[str, int]] = opened.execute(
            "SELECT task_id, task_completed FROM execution_analyses ORDER BY id"
        )
        for run, done in rows:
            task, _, phase = run.partition("_")
            if phase == part:
                yield RecordedResult(task, float(done))


def _outcomes(file: Path, part: str) -> Iterator[RecordedResult]:
    """JSON lines of areev: the calls of tools, which are not read, and an outcome per task. part: the set of tasks."""
    for row in _documents(file):
        if row.get("kind") == "task_outcome":
            task, score = f"{part}/{row['task_id']}", _number(row["success"])
            yield RecordedResult(task, score, cluster=str(row["template"]))


_READERS: Mapping[RecordingLayout, Callable[[Path, str], Iterator[RecordedResult]]] = {
    "answers": _answers,
    "trials": _trials,
    "predictions": _predictions,
    "phases": _phases,
    "outcomes": _outcomes,
}
