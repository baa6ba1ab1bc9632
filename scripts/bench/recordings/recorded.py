"""What was recorded, which questions are asked of it, and the answers.

All questions are compared and corrected together.
"""

import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from agentlearn.errors import DataError
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import Rules, estimate_contrasts, verdicts_over_tables
from agentlearn.measure.score_table import Observation, tabulate
from agentlearn.types.value import Value
from scripts.bench.recordings.layouts import RecordingLayout, RowColumns, recorded_results

RULES = Rules(correction="holm")
"""As `agentlearn compare` decides, with Holm's correction over all questions of the page."""
RecordingFamily = Literal["Memory for mathematics", "Agents with tools", "Reflection over trials", "Skills"]


class RecordingSource(Value):
    """A public repository."""

    repository: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    """Owner and name on GitHub. The clone has the name of the repository."""
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    licence: Literal["MIT", "Apache-2.0", "MIT or Apache-2.0"]
    paths: tuple[str, ...]
    """Folders to check out; a whole checkout also serves."""

    @property
    def folder(self) -> str:
        """Name of the clone."""
        return self.repository.partition("/")[2]

    @property
    def cloning(self) -> tuple[str, ...]:
        """Commands that make the clone in the current folder, without the files that are not read."""
        git, paths = f"git -C {self.folder}", " ".join(self.paths)
        return (
            f"git clone --filter=blob:none --no-checkout https://github.com/{self.repository} {self.folder}",
            f"{git} sparse-checkout set --no-cone LICENSE {paths}",
            f"{git} checkout {self.commit}",
        )


class RecordedQuestion(Value):
    """A question that is asked of a recording."""

    pair: tuple[str, str]
    """The arm to start from, and the arm that is compared with it."""
    ask: str
    reading: str
    """What a person makes of the answer, without its numbers."""


class ExperimentRecording(Value):
    """What somebody recorded of a real model on one set of tasks."""

    title: str
    family: RecordingFamily
    source: str
    about: str
    """Models, tasks, who judged, and how many runs there are."""
    limits: str
    """What the recording cannot show."""
    layout: RecordingLayout
    columns: RowColumns | None = None
    arms: dict[str, tuple[str, ...]]
    """Files of each arm, as `PATH` or `PATH#PART`; several are rollouts of the same tasks."""
    questions: tuple[RecordedQuestion, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        unknown = {name for one in self.questions for name in one.pair} - self.arms.keys()
        if unknown:
            raise ValueError(f"{self.title}: no arm is called {min(unknown)!r}")
        if (self.layout == "rows") != (self.columns is not None):
            raise ValueError(f"{self.title}: the layout 'rows', and no other, has columns")
        return self


class Recordings(Value):
    """Everything that the page is made of."""

    sources: dict[str, RecordingSource]
    recordings: tuple[ExperimentRecording, ...]


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """The answer to a question, with the rollouts that it rests on."""

    recording: ExperimentRecording
    question: RecordedQuestion
    contrast: Contrast
    observations: tuple[Observation, ...]


def load_recordings() -> Recordings:
    """Return what `recordings.toml` lists."""
    text = (Path(__file__).parent / "recordings.toml").read_text(encoding="utf-8")
    return Recordings.model_validate(tomllib.loads(text))


def answer_questions(listed: Recordings, clones: Path) -> tuple[AnsweredQuestion, ...]:
    """Return the answers to all questions, in order, corrected for their number.

    clones: folder that holds a clone of each source. Raises DataError for a file that is missing or laid out otherwise.
    """
    asked = [(one, question) for one in listed.recordings for question in one.questions]
    rollouts = [
        tuple(_observations(one, question.pair, clones / listed.sources[one.source].folder)) for one, question in asked
    ]
    tables = [
        tabulate(seen, question.pair, allow_missing=True) for seen, (_, question) in zip(rollouts, asked, strict=True)
    ]
    drafts = [(draft, table) for table in tables for draft in estimate_contrasts(table, RULES)]
    judged = verdicts_over_tables(drafts, RULES)
    return tuple(
        AnsweredQuestion(one, question, contrast, seen)
        for (one, question), contrast, seen in zip(asked, judged, rollouts, strict=True)
    )


def _observations(recording: ExperimentRecording, arms: tuple[str, str], clone: Path) -> Iterator[Observation]:
    if not clone.is_dir():
        raise DataError(
            f"there is no clone {str(clone)!r}; --clone-commands prints the commands that make it", code="no_clone"
        )
    for arm in arms:
        for g, name in enumerate(recording.arms[arm]):
            path, _, part = name.partition("#")
            for one in recorded_results(recording.layout, clone / path, part, recording.columns):
                yield Observation(
                    arm=arm,
                    task=one.task,
                    g=g,
                    score=one.score,
                    status="undecided" if one.score is None else "ok",
                    error=one.error,
                    problem=one.problem,
                    cluster=one.cluster,
                )


def commit_of(clone: Path) -> str:
    """Return the commit that is checked out; empty where that cannot be told."""
    if not (clone / ".git").exists():
        return ""
    command = ["git", "-C", str(clone), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
