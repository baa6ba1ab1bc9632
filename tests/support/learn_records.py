"""Learn runs made by hand, with everything that a page can show, for tests of the page."""

import json
from datetime import UTC, datetime
from pathlib import Path

from agentlearn.config import LearnSettings
from agentlearn.learning.report import (
    LearnReport,
)
from agentlearn.pages.learn_record import FamilyScore, LearnRecord
from agentlearn.pages.lesson_origins import LessonOrigin
from agentlearn.pages.records import GroupRow
from agentlearn.store import ProposalRow, RunRow, TrajectoryRow
from agentlearn.types.experience import Experience, Library, Origin
from agentlearn.types.ids import ExperienceId, LibraryVersion, ProposalId, RolloutId, RunId, TaskId
from agentlearn.types.operation import (
    Add,
    Applied,
    Delete,
    Dropped,
    End,
    Ended,
    Folded,
    Merge,
    Modify,
    Proposal,
    Quarantined,
    Rejected,
)
from agentlearn.types.trajectory import PromptRef

RUN = RunId("01jc0000000000000000000001")
AT = datetime(2026, 7, 1, 12, tzinfo=UTC)
ARABIC = "اجمع الأعداد واحدا واحدا قبل أن تجيب"
LONG_LESSON = "word " * 31 + "end"


def ends(text: str) -> tuple[End, ...]:
    return (
        Applied(experience=ExperienceId("x0" * 8)),
        Folded(into=(ProposalId("p0"),)),
        Dropped(reason=text),
        Rejected(code="too_long", reason=text),
        Quarantined(code="asks_for_secrets", reason=text),
    )


def proposals(tasks: int, epochs: int, text: str, lesson: str) -> tuple[ProposalRow, ...]:
    operations = (
        Add(lesson=lesson),
        Modify(target=ExperienceId("x1" * 8), lesson=lesson),
        Merge(targets=(ExperienceId("x1" * 8), ExperienceId("x2" * 8)), lesson=lesson),
        Delete(target=ExperienceId("x1" * 8)),
        None,
    )
    prompt = PromptRef(name="agentlearn.prompts:compare", version=2, sha256="ab" * 32)
    return tuple(
        ProposalRow(
            f"epoch-{epoch}",
            1,
            Ended(
                proposal=Proposal(
                    id=ProposalId(f"p{number}"),
                    stage="compare",
                    ordinal=number,
                    operation=operations[(number // 5) % 5],
                    raw=text,
                    task=TaskId(f"{number // 2:032x}"),
                    evidence=(RolloutId("r1"), RolloutId("r2")),
                    prompts=(prompt,),
                ),
                end=ends(text)[number % 5],
                flags=("mentions_answer",) if number % 7 == 0 else (),
            ),
            RUN,
        )
        for epoch in range(1, epochs + 1)
        for number in range(2 * tasks)
    )


def learn_record(
    *,
    tasks: int = 6,
    epochs: int = 2,
    text: str = "A plain text.",
    lesson: str = "Count both ends.",
    simulated: bool = True,
) -> LearnRecord:
    """A run whose report, groups, proposals and lessons all hold `text` where a text from outside can stand."""
    settings = LearnSettings(domain="math", model="sim:novice", epochs=epochs, store=Path("s"))
    library = Library(
        experiences=tuple(
            Experience(
                id=ExperienceId(f"x{n}" * 8),
                lesson=words,
                tags=(text[:20],),
                origin=Origin(kind="add" if n else "merge", parents=(ExperienceId("x7" * 8),) if not n else ()),
            )
            for n, words in enumerate((lesson, LONG_LESSON, ARABIC))
        )
    )
    problems = {TaskId(f"{n:032x}"): f"{n}. {text}" for n in range(tasks)}
    return LearnRecord(
        row=RunRow(
            run=RUN,
            domain=text,
            kind="learn",
            state="done",
            model="sim:novice",
            simulated=simulated,
            seed=3,
            settings=settings.resolved(),
            package_version="1.0",
            started_at=AT,
            at=AT,
            report="{}",
        ),
        report=full_report(text, epochs=epochs, tasks=tasks, library=library, simulated=simulated),
        settings=settings.model_dump(mode="json"),
        rollouts=tuple(
            TrajectoryRow(
                id=RolloutId(f"r{phase}{n}"),
                phase=phase,
                batch=1,
                task=TaskId(f"{n:032x}"),
                g=0,
                attempt=0,
                outcome="ok",
                reward=1.0,
                tokens_in=100,
                tokens_out=10,
                cost_usd=0.001,
                seconds=1.0,
            )
            for phase in ("before", "epoch-1", "after")
            for n in range(tasks)
        ),
        groups=tuple(
            GroupRow(
                phase=f"epoch-{epoch}",
                batch=1 + n // 20,
                task=task,
                problem=problem,
                rewards=((1.0, 0.0, 1.0, None, 0.5), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0))[n % 3],
                failed=False,
                ends={"applied": 1, "folded": 2},
            )
            for epoch in range(1, epochs + 1)
            for n, (task, problem) in enumerate(problems.items())
        ),
        families=(
            FamilyScore(family=text, tasks=3, before=0.2, after=0.9),
            FamilyScore(family="other", tasks=2, before=0.5, after=0.5),
        ),
        proposals=proposals(tasks, epochs, text, lesson),
        problems=problems,
        library=library,
        start=LibraryVersion("0" * 32),
        origins={
            ExperienceId("x0" * 8): [LessonOrigin(RUN, "epoch-1", 1, "p0", ("p1",), (f"{RUN}/00000001@epoch-1",), 10)]
        },
        lessons={ExperienceId("x1" * 8): lesson, ExperienceId("x7" * 8): "Count one end."},
        store=Path("s"),
    )


def full_report(text: str, *, epochs: int, tasks: int, library: Library, simulated: bool) -> LearnReport:
    """Return a report with everything that it can hold, of at most three epochs."""
    written = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    found = json.loads(written.replace("TEXT", json.dumps(text)[1:-1]))
    found |= {"epochs": found["epochs"][:epochs], "tasks": found["tasks"] | {"train": tasks}, "simulated": simulated}
    found["library"] |= {"version": library.version, "current": library.version}
    found["selection"] |= {"selected": library.version}
    return LearnReport.model_validate(found)
