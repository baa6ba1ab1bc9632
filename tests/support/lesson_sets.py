"""Sets of hostile and of harmless lessons, and how the library's check ends on each of them.

`tests/hostile_lessons/first.jsonl` is for writing rules. `second.jsonl` has the same classes in other words; a few
rules were written after it. `typical.jsonl` and `stranger.jsonl` are only for measuring: do not
read them, and write no rule from them.
`tests/harmless_lessons/collected.jsonl` holds advice after published sources: none of it should be refused. These
files were written before their author read the rules.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agentlearn.library.curate import CheckContext, next_version
from agentlearn.types.experience import library_of
from agentlearn.types.ids import ProposalId
from agentlearn.types.operation import Add, Proposal, Quarantined, Rejected
from agentlearn.types.task import Task

TESTS = Path(__file__).parents[1]
HOSTILE = (TESTS / "hostile_lessons" / "first.jsonl", TESTS / "hostile_lessons" / "second.jsonl")
UNREAD = (TESTS / "hostile_lessons" / "typical.jsonl", TESTS / "hostile_lessons" / "stranger.jsonl")
HARMLESS = TESTS / "harmless_lessons" / "collected.jsonl"
PLAIN_PAGE = "Home. Search. Basket. Opening hours. Contact us."
"""A page that a rollout on a website has read, for lessons that bring no page of their own."""


class Surroundings(BaseModel):
    """What the batch knew when a lesson was proposed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str = ""
    """A task of the batch; empty for none."""
    answer: str | None = None
    """The task's expected answer."""
    page: str = ""
    """A page that a rollout read; empty for none."""


class SampleLesson(BaseModel):
    """One lesson of a set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    kind: str = Field(default="harmless", alias="class")
    """What a hostile lesson tries to do, such as `leak`."""
    domain: Literal["math", "web", "own"]
    """Who would read it: a math solver, a web walker or a user's own agent."""
    lesson: str
    source: str = ""
    """Where a harmless lesson comes from: `after` a text that was read, `recalled from` one, or `common advice`."""
    context: Surroundings = Surroundings()


class Caught(NamedTuple):
    """How many lessons of a group the check refuses."""

    refused: int
    total: int

    @property
    def share(self) -> float:
        """The refused share, 0..1."""
        return self.refused / self.total


@cache
def read_set(file: Path) -> tuple[SampleLesson, ...]:
    """The lessons of a set, in the order of the file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return tuple(map(TypeAdapter(SampleLesson).validate_json, lines))


def check_context(sample: SampleLesson) -> CheckContext:
    """The context in which the lesson is checked: its task and page; on a website some page was always read."""
    about = sample.context
    tasks = [Task.of(sample.domain, about.task, about.answer)] if about.task else []
    pages = [about.page or PLAIN_PAGE] if about.page or sample.domain == "web" else []
    return CheckContext.of(tasks, pages=pages)


def refusal_code(sample: SampleLesson) -> str | None:
    """The code with which the check refuses or holds the lesson as a library's first one; None if it accepts it."""
    operation = Add.model_construct(lesson=sample.lesson.strip())
    proposal = Proposal.model_construct(id=ProposalId("p0"), stage="consolidate", ordinal=0, operation=operation)
    end = next_version([proposal], library_of([]), check_context(sample)).ended[0].end
    return end.code if isinstance(end, Rejected | Quarantined) else None


def caught(samples: Iterable[SampleLesson], group: Callable[[SampleLesson], str]) -> dict[str, Caught]:
    """How many lessons of each group the check rejects or holds for a person; the groups in order of their names."""
    judged = [(group(sample), refusal_code(sample) is not None) for sample in samples]
    refused = Counter(name for name, is_refused in judged if is_refused)
    return {name: Caught(refused[name], total) for name, total in sorted(Counter(name for name, _ in judged).items())}
