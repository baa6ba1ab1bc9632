"""The evidence that a store holds, and the commands that show it and act on it."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import run
from agentlearn.errors import LibraryError
from agentlearn.learning.evidence import LibraryEvidence
from agentlearn.library import LibraryStore
from agentlearn.live.inbox import Inbox
from agentlearn.store import open_store, read_store
from agentlearn.types.experience import Library, library_of
from agentlearn.types.ids import ExperienceId, RunId, rollout_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment, Verdict
from tests.unit.store import nouns

MADE = library_of(["Check the units of every amount.", "Try small cases first."], kind="add")
OWN = library_of(["Answer in one word."], kind="person")
LIBRARY = Library(experiences=(*MADE.experiences, *OWN.experiences))
BAD, GOOD, PERSONS = LIBRARY.by_id
GROUPS = 20
TASKS = [Task.of("math", f"What is {number} + 2?", str(number + 2)) for number in range(GROUPS)]


def rollouts(lesson: ExperienceId, without: float, *, run: str = "0", model: str = "m") -> list[Trajectory]:
    """Groups of five rollouts, in which the lesson is hidden from the second one, which gets another reward."""
    run_id, found = RunId("01jd" + run * 22), list[Trajectory]()
    for task in TASKS:
        for g in range(5):
            reward = without if g == 1 else 1 - without
            masked = (lesson,) if g == 1 else ()
            found.append(
                nouns.trajectory(
                    g,
                    id=rollout_id(run_id, "epoch-1", task.id, g, 0),
                    run=run_id,
                    task=task.id,
                    seed=10 * int(run) + g,
                    treatment=Treatment(model=model, library=LIBRARY.version, masked=masked),
                    verdict=Verdict(status="correct" if reward else "incorrect", reward=reward),
                )
            )
    return found


def filled(folder: Path, made: Sequence[Trajectory]) -> Path:
    """A store with these rollouts, and the library published as `demo`."""

    async def fill() -> None:
        async with open_store(folder) as store:
            await store.save_tasks(TASKS)
            await store.save_version(LIBRARY, run=nouns.RUN)
            await asyncio.gather(*(store.save_trajectory(one, b"[]") for one in made))

    asyncio.run(fill())
    LibraryStore(folder / "libraries").publish("demo", LIBRARY)
    return folder


def evidence(store: Path) -> LibraryEvidence:
    with read_store(store) as reader:
        return LibraryEvidence.of(reader, LibraryStore(store / "libraries"), "demo")


def output(capsys: pytest.CaptureFixture[str], store: Path, *arguments: str) -> str:
    capsys.readouterr()
    assert run(["library", *arguments, "--store", str(store)]) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that show one lesson to be harmful, one to be good, and a person's lesson to be harmful."""
    made = [*rollouts(BAD, 1.0), *rollouts(GOOD, 0.0, run="1"), *rollouts(PERSONS, 1.0, run="2")]
    return filled(tmp_path_factory.mktemp("evidence"), made)


def test_evidence_of_all_runs_is_judged_together(store: Path) -> None:
    found = evidence(store)
    assert {one.lesson: one.label for one in found.evidence} == {BAD: "harmful", GOOD: "proven", PERSONS: "harmful"}
    assert {(one.blocks, one.shown, one.hidden) for one in found.evidence} == {(GROUPS, 4 * GROUPS, GROUPS)}
    assert found.tested == 3


def test_rollouts_that_hide_no_lesson_are_not_read(tmp_path: Path) -> None:
    shown = {"treatment": Treatment(model="m", library=LIBRARY.version)}
    plain = [one.model_copy(update=shown) for one in rollouts(BAD, 1.0)]
    folder = filled(tmp_path, plain)
    assert evidence(folder).evidence == ()
    with read_store(folder) as reader:
        assert reader.exposed(list(LIBRARY.by_id)) == []


def test_lessons_of_earlier_versions_stay_in_the_count(tmp_path: Path) -> None:
    folder = filled(tmp_path, [*rollouts(BAD, 1.0), *rollouts(GOOD, 0.0, run="1")])
    LibraryStore(folder / "libraries").publish(
        "demo", Library(parent=LIBRARY.version, experiences=LIBRARY.experiences[1:])
    )
    assert evidence(folder).tested == 2


def test_blocks_on_tasks_that_a_lesson_was_learned_from_do_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = rollouts(BAD, 1.0)
    folder = filled(tmp_path, made)

    async def learned() -> None:
        async with open_store(folder) as opened:
            ended = nouns.applied("p1", BAD, evidence=tuple(one.id for one in made[:10]))
            await opened.save_proposals(nouns.RUN, "epoch-1", 1, [ended])

    asyncio.run(learned())
    (one,) = evidence(folder).evidence
    assert (one.own_task_blocks, one.blocks) == (2, GROUPS - 2)
    assert "not counted: 2 blocks" in output(capsys, folder, "effects", "demo")


def test_effects_lists_every_lesson_with_its_label_and_cost(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = output(capsys, store, "effects", "demo")
    bad = next(line for line in said.splitlines() if line.startswith(BAD[:12]))
    assert bad.split()[1:4] == ["m", "harmful", "-100.0"]
    assert "Try small cases first." in said
    assert "3 tests share the error budget" in said
    document = json.loads(output(capsys, store, "effects", "demo", "--json"))
    assert [one["evidence"]["label"] for one in document["lessons"]] == ["harmful", "proven", "harmful"]
    other: Any = json.loads(output(capsys, store, "effects", "demo", "--model", "other", "--json"))
    assert [one["evidence"] for one in other["lessons"]] == [None] * 3


def test_prune_parks_what_is_harmful_and_leaves_a_persons_lesson(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = filled(tmp_path, [*rollouts(BAD, 1.0), *rollouts(PERSONS, 1.0, run="2")])
    libraries = LibraryStore(folder / "libraries")
    said = output(capsys, folder, "prune", "demo", "--dry-run")
    assert "would park" in said
    assert libraries.load("demo") == LIBRARY
    said = output(capsys, folder, "prune", "demo")
    assert "parked" in said
    assert "kept, for you to decide" in said
    after = libraries.load("demo")
    assert list(after.by_id) == [GOOD, PERSONS]
    assert [one.experience.id for one in after.withheld] == [BAD]
    assert after.withheld[0].reason.startswith("harmful: -100.0 points")
    document = json.loads(output(capsys, folder, "prune", "demo", "--json"))
    assert (document["parked"], len(document["reported"])) == ([], 1)
    assert "parked" in output(capsys, folder, "effects", "demo"), "the parked lesson keeps its evidence"


def test_prune_makes_room_by_evidence_and_says_what_it_cannot_move(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weak = [*rollouts(BAD, 1.0)[: 5 * 3], *rollouts(GOOD, 0.0, run="2")]
    folder = filled(tmp_path, weak)
    said = output(capsys, folder, "prune", "demo", "--max-lessons", "1")
    assert "the library is full, and this lesson has the least value per token" in said
    assert "2 lessons with" in said
    assert "more than asked for: all are proven, by a person, or were never measured" in said
    assert list(LibraryStore(folder / "libraries").load("demo").by_id) == [GOOD, PERSONS]


def test_what_is_harmful_waits_in_the_inbox_and_a_person_parks_or_keeps_it(tmp_path: Path) -> None:
    folder = filled(tmp_path, [*rollouts(BAD, 1.0), *rollouts(PERSONS, 1.0, run="2")])
    inbox = Inbox(folder / "libraries", folder)
    found = {one.id: one for one in inbox.items()}
    assert found.keys() == {f"park-{BAD}", f"park-{PERSONS}"}
    lesson = found[f"park-{BAD}"].lessons[0]
    assert (found[f"park-{BAD}"].kind, lesson.change, lesson.points) == ("rollback", "park", -100.0)
    assert lesson.interval is not None
    assert lesson.interval[1] < 0
    assert lesson.tokens < 0
    inbox.reject(f"park-{PERSONS}", "I know better")
    inbox.approve(f"park-{BAD[:8]}")
    assert inbox.items() == ()
    assert list(inbox.libraries.load("demo").by_id) == [GOOD, PERSONS]
    inbox.undo()
    assert [one.id for one in inbox.items()] == [f"park-{BAD}"]
    with pytest.raises(LibraryError, match="was rejected by"):
        inbox.approve(f"park-{PERSONS}")
    inbox.edit(f"park-{BAD}", "Write the unit behind every amount.")
    assert inbox.libraries.load("demo").experiences[0].lesson == "Write the unit behind every amount."
