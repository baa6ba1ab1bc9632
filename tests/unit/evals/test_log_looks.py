"""Comparisons of growing logs are recognised by content, counted, and corrected."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.cli.app import run as command
from agentlearn.measure.score_table import Observation
from agentlearn.measure.sequential import look_factor
from agentlearn_evals import Comparison, compare_logs
from agentlearn_evals.log_comparison import ArmFingerprint, EarlierLogs, digests
from tests.support.cases import cases
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


def test_other_file_names_orders_and_arm_names_change_nothing() -> None:
    first = scores(20, 1)
    assert look(logged("first.csv", first)) == 1
    more = scores(20, 2)
    assert look(logged("second.csv", more, order=sorted(more, reverse=True)), "b", "a") == 2
    renamed = {({"a": "before", "b": "after"}[arm], task, g): score for (arm, task, g), score in scores(40, 2).items()}
    assert look(logged("third.csv", renamed)) == 3


def test_rollouts_that_were_undecided_may_be_decided_later() -> None:
    rows = [{"arm": a, "task": t, "g": g, "score": score} for (a, t, g), score in scores(20, 2).items()]
    undecided = [row | {"score": None, "status": "undecided"} if row["task"] == "t3" else row for row in rows]
    log_samples.write_lines(Path("first.jsonl"), undecided)
    log_samples.write_lines(Path("second.jsonl"), rows)
    assert [look("first.jsonl"), look("second.jsonl")] == [1, 2]


def test_arms_of_the_same_names_are_compared_again_whatever_their_tasks_and_scores_are() -> None:
    found = scores(20, 2)
    assert look(logged("one.csv", scores(20, 1))) == 1
    assert look(logged("two.csv", found | {("b", "t4", 0): 1 - found["b", "t4", 0]})) == 2
    others = {(arm, f"other {task}", g): score for (arm, task, g), score in scores(20, 2, run=1).items()}
    assert look(logged("three.csv", others)) == 3


def test_other_arms_with_other_scores_or_the_same_few_are_another_question() -> None:
    assert look(logged("one.csv", scores(4, 1))) == 1
    others = {({"a": "c", "b": "d"}[arm], task, g): score for (arm, task, g), score in scores(5, 1).items()}
    assert look(logged("two.csv", others)) == 1
    assert look(logged("three.csv", scores(5, 1))) == 2
    assert look(logged("four.csv", scores(20, 2, run=1, arms="ef"))) == 1


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


@pytest.mark.slow
def test_while_another_process_has_the_store_open_looks_are_counted_and_not_recorded() -> None:
    first, second = logged("one.csv", scores(20, 1)), logged("two.csv", scores(20, 2))
    assert look(first) == 1
    program = "import asyncio, sys; from pathlib import Path; from agentlearn.store import open_store\n"
    program += "async def main():\n  async with open_store(Path('store')):\n    print('open', flush=True)\n"
    program += "    await asyncio.to_thread(sys.stdin.read)\nasyncio.run(main())"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        found = looked(second)
        other.communicate(b"")
    assert (found.look, found.run) == (2, "")
    assert found.looks_note == "another process has the store 'store' open, so this look is not recorded for later ones"


def test_without_a_store_looks_are_not_counted() -> None:
    file = logged("one.csv", scores(8, 1))
    found = compare_logs([file]).comparison
    assert (found.run, found.looks_note) == (
        "",
        "looks cannot be counted, so p is not corrected for earlier ones: no store was given",
    )


def test_earlier_comparisons_that_cannot_be_read_are_told() -> None:
    row: Any = SimpleNamespace(kind="eval", report="{}", settings='{"fingerprints":5}', run="01run", started_at=0)
    assert EarlierLogs([row]).note.endswith("because this version cannot read them: 01run")
    assert EarlierLogs().note == ""


def seen(found: Mapping[tuple[int, int], float]) -> list[Observation]:
    return [Observation(arm="a", task=f"t{task}", g=g, score=score) for (task, g), score in found.items()]


keys = st.tuples(st.integers(0, 40), st.integers(0, 3))


tables = st.dictionaries(keys, st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=60)


@given(tables, st.data())
def test_a_part_of_a_log_is_always_recognised(whole: dict[tuple[int, int], float], data: st.DataObject) -> None:
    part = data.draw(st.lists(st.sampled_from(sorted(whole)), min_size=1, unique=True))
    large = ArmFingerprint.of("a", seen(whole))
    small = ArmFingerprint.of("a", seen({key: whole[key] for key in part}))
    assert large.grows(small)
    assert small.grows(large)
    assert digests((large, small)) == digests((small, large))
    assert (digests((large, large)) == digests((small, small))) == (len(part) == len(whole))


@given(tables, st.data())
def test_one_other_score_is_always_seen(whole: dict[tuple[int, int], float], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(whole)))
    other = whole | {key: whole[key] + 0.25}
    one, two = ArmFingerprint.of("a", seen(whole)), ArmFingerprint.of("a", seen(other))
    assert not one.grows(two)
    assert not two.grows(one)
    assert digests((one, one)) != digests((one, two))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    cases(__file__, "logs_of_arms_from_different_times_say_so_beside_the_verdict"),
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
