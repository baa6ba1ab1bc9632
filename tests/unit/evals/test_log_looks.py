"""Comparisons of growing logs are recognised by content, counted, and corrected."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from agentlearn.cli.app import run as command
from agentlearn.stats import look_factor
from agentlearn_evals import Comparison, compare_logs
from tests.unit.evals import log_samples

Scores = Mapping[tuple[str, str, int], float]
STORE = Path("store")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def scores(tasks: int, k: int, *, run: int = 0, arms: str = "ab") -> dict[tuple[str, str, int], float]:
    """Scores that look random; of the same run, fewer tasks or rollouts are a part of more."""
    return {
        (arm, f"t{task}", g): float((hash((arm == arms[0], task, g, run)) >> 7) % 2)
        for arm in arms
        for task in range(tasks)
        for g in range(k)
    }


def logged(file: str, found: Scores, *, order: Iterable[tuple[str, str, int]] | None = None) -> str:
    rows = [{"arm": arm, "task": task, "g": g, "score": found[arm, task, g]} for arm, task, g in order or found]
    return str(log_samples.write_csv(Path(file), rows))


def looked(file: str, *arms: str, planned_looks: int = 1, pairs: tuple[str, ...] = ()) -> Comparison:
    return compare_logs([file], arms, planned_looks=planned_looks, pairs=pairs, store=STORE).comparison


def look(file: str, *arms: str) -> int:
    return looked(file, *arms).contrasts[0].look


def test_more_rollouts_and_more_tasks_are_further_looks() -> None:
    assert [look(logged("one.csv", scores(20, k))) for k in (1, 2, 4)] == [1, 2, 3]
    found = looked(logged("two.csv", scores(60, 4)))
    assert (found.look, len(found.looks)) == (4, 3)
    [contrast] = found.contrasts
    assert contrast.p is not None
    assert contrast.p_adjusted == min(1.0, contrast.p * look_factor(4, 1))


def test_the_same_data_keep_their_look() -> None:
    small, large = logged("small.csv", scores(20, 1)), logged("large.csv", scores(20, 3))
    assert [look(small), look(small), look(large), look(small), look(large)] == [1, 1, 2, 1, 2]


def test_arms_of_the_same_names_are_compared_again_whatever_their_tasks_and_scores_are() -> None:
    found = scores(20, 2)
    assert look(logged("one.csv", scores(20, 1))) == 1
    assert look(logged("two.csv", found | {("b", "t4", 0): 1 - found["b", "t4", 0]})) == 2
    others = {(arm, f"other {task}", g): score for (arm, task, g), score in scores(20, 2, run=1).items()}
    assert look(logged("three.csv", others)) == 3


def test_looks_are_counted_for_each_pair(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (logged(f"{n}.csv", {**scores(12, n), **scores(12, n, run=1, arms="c")}) for n in (2, 3))
    looked(first, "a", "b", "c", pairs=("a:b", "b:c"))
    assert [one.look for one in looked(second, pairs=("all",)).contrasts] == [2, 1, 2]
    assert command(["compare", "--logs", first, "--pair", "c:b", "--pair", "a:b", "--store", str(STORE)]) == 0
    said = capsys.readouterr().out
    assert "\n  b - c " in said
    assert "\n  b - a " in said
    assert "look 2" not in said, "the same data, also in the other order, are no further look"


def test_the_terminal_says_which_look_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    for k in (1, 2):
        arguments = ["compare", "--logs", logged("one.csv", scores(20, k)), "--looks", "2"]
        assert command(arguments) == 0
    assert "b: look 2 of 2 planned at these arms; p is corrected for it; earlier: 20 pairs (run " in (
        capsys.readouterr().out
    )
    assert command([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["contrasts"][0]["look"], found["planned_looks"], found["looks_note"]) == (2, 2, "")
    assert command(["runs", "show", found["run"]]) == 0
    assert "b" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("2026-11-01T10:{:02d}:00Z", "2026-11-20T10:{:02d}:00+01:00", True),
        ("2026-11-01T10:{:02d}:00", "2026-11-01T10:{:02d}:30", False),
        ("2026-11-01T10:{:02d}:00", "", False),
    ],
)
def test_logs_of_arms_from_different_times_say_so_beside_the_verdict(before: str, after: str, said: bool) -> None:
    rows = [
        {"arm": arm, "task": task, "g": g, "score": score, "started_at": started.format(int(task[1:]))}
        for (arm, task, g), score in scores(20, 1).items()
        for started in [before if arm == "a" else after]
    ]
    found = looked(str(log_samples.write_csv(Path("times.csv"), rows)))
    words = "The arms ran at different times (a from 2026-11-01 10:00 to 2026-11-01 10:19 and b from 2026-11-20 10:00"
    assert (words in found.contrasts[0].sentence) == said
    assert not any("not read" in note for note in found.notes)
