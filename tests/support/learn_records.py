"""Learn runs made by hand, with everything that a page can show, for tests of the page."""

from datetime import UTC, datetime
from pathlib import Path

from agentlearn.config import LearnSettings
from agentlearn.learning.report import (
    Allocated,
    CurvePoint,
    Delta,
    EpochLine,
    HeldOut,
    HeldOutScore,
    LearnReport,
    LibraryLine,
    SelectedVersion,
    StageLine,
    VersionLine,
    WeightsRecord,
)
from agentlearn.library.curate import EndCounts
from agentlearn.measure.contrast import ContrastVerdict, Worst
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
from agentlearn.views.learn_record import LearnRecord, _FamilyScore
from agentlearn.views.lesson_origins import LessonOrigin
from agentlearn.views.records import GroupRow

RUN = RunId("01jc0000000000000000000001")
AT = datetime(2026, 7, 1, 12, tzinfo=UTC)
ARABIC = "اجمع الأعداد واحدا واحدا قبل أن تجيب"
LONG_LESSON = "word " * 31 + "end"


def score(mean: float, text: str = "") -> HeldOutScore:
    errors = {text: 2} if text else {}
    return HeldOutScore(mean=mean, ci=(mean - 0.1, mean + 0.1), n=60, k=4, rollouts=240, undecided=2, errors=errors)


def delta(verdict: ContrastVerdict, mean: float, text: str) -> Delta:
    return Delta(
        mean=mean,
        ci=(mean - 0.1, mean + 0.1),
        p=0.01,
        n=60,
        clusters=25,
        verdict=verdict,
        worst=Worst(low=mean - 0.2, high=mean + 0.2),
        caution=text,
        carried=text,
        sentence=f"The learned library is {verdict} than the library at the start: {mean:+.2f}. {text}",
    )


def versions(number: int) -> tuple[VersionLine, ...]:
    """A start, candidates, two finalists of which one is selected, and the empty library."""
    roles = {0: "start", number - 2: "finalist", number - 1: "selected"}
    made = tuple(
        VersionLine(
            version=LibraryVersion(f"{n:08x}" * 4),
            parent=None,
            updates=n,
            lessons=n,
            tokens=20 * n,
            rollouts=50,
            reward=0.5,
            estimate=n / 20,
            ci=(n / 20 - 0.1, n / 20 + 0.1),
            validation=score(0.5 + n / 50) if n >= number - 2 else None,
            role=roles.get(n, "candidate"),  # pyright: ignore[reportArgumentType]
        )
        for n in range(number)
    )
    empty = VersionLine(
        version=LibraryVersion("e" * 32), parent=None, updates=0, lessons=0, tokens=0, estimate=-0.1, role="empty"
    )
    return (*made[:1], empty, *made[1:])


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
            _FamilyScore(family=text, tasks=3, before=0.2, after=0.9),
            _FamilyScore(family="other", tasks=2, before=0.5, after=0.5),
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
    before, after, change = score(0.4, text), score(0.8, text), delta("better", 0.4, text)
    return LearnReport(
        run=RUN,
        domain=text,
        model=text,
        reflector=text,
        simulated=simulated,
        seed=3,
        tasks={"train": tasks, "test": 60},
        before=before,
        after=after,
        delta=change,
        known_families=HeldOut(name="known families", before=before, after=after, delta=change, families=20),
        unseen_families=HeldOut(name="unseen families", before=before, after=after, delta=change, families=5),
        test_sets=(HeldOut(name=text, before=before, after=after, delta=change, families=5),),
        library=LibraryLine(
            name="math", version=library.version, parent=None, lessons=3, tokens=60, current=library.version
        ),
        proposals=EndCounts(applied=3, rejected={"too_long": 2}),
        groups={"mixed": 3, "all_right": 2, "all_wrong": 1},
        rollouts={"ok": 100, "failed": 1, "undecided": 2},
        stages={
            "rollout": StageLine(calls=1000, tokens_in=90_000, tokens_out=9_000, cost_usd=0.9, seconds=500, retried=4),
            "compare": StageLine(calls=90, tokens_in=40_000, tokens_out=3_000, seconds=60, malformed={text: 2}),
        },
        failed_requests={text: 4},
        epochs=tuple(
            EpochLine(
                epoch=n + 1,
                reward=0.5 + n / 10,
                groups={"mixed": 3, "all_right": 2},
                lessons=3,
                applied=3,
                folded=2,
                dropped=1,
                rejected=1,
                seconds=60,
            )
            for n in range(epochs)
        ),
        allocated=Allocated(planned=100, drawn=43, stopped=12, saved=24, skipped=7),
        versions=versions(8),
        selection=SelectedVersion(
            selected=library.version,
            last=LibraryVersion("9" * 32),
            basis="validation",
            tasks=20,
            rollouts=120,
            delta=change,
            status="pending",
            reason=f"its interval lies below the start. {text}",
            command="agentlearn library publish math@7",
        ),
        curve=(CurvePoint(updates=0, held_out=before), CurvePoint(updates=4, held_out=after)),
        weights=WeightsRecord(identity=text, note=text),
        cost_usd=0.9,
        wall_s=75.0,
        notes=(text, f"held-out tasks got worse; {text}"),
    )
