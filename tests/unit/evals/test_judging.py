"""Labels of people: reading them, what the judge is held to, and the correction of a comparison."""

import csv
from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import run
from agentlearn.config import given_settings
from agentlearn.errors import ConfigError, DataError
from agentlearn.types.task import Task
from agentlearn_evals.compare_objects import compare_sync
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.judging import labels_by_arm, read_labels, refuse_poor_judge
from agentlearn_evals.plan import plan_comparison
from tests.support.cases import cases


def file(folder: Path, *lines: str) -> str:
    path = folder / "labels.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_labels_are_words_or_numbers_and_rows_without_one_are_left_out(tmp_path: Path) -> None:
    path = file(tmp_path, "label,judged,arm,label:tone,judged:tone", "Right,1,a,1,0", ",1,a,,", "0.5,wrong,b,,")
    found = read_labels(path)
    assert [(one.person, one.judge, one.arm) for one in found] == [(1.0, 1.0, "a"), (0.5, 0.0, "b")]
    assert found[0].criteria == {"tone": (1.0, 0.0)}


@pytest.mark.parametrize(
    ("lines", "words"),
    cases(__file__, "what_is_no_label_is_refused_with_its_line"),
)
def test_what_is_no_label_is_refused_with_its_line(lines: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_labels(file(tmp_path, *lines))
    assert words in str(caught.value)


def test_a_poor_judge_stops_a_comparison_before_anything_is_spent(tmp_path: Path) -> None:
    labels = file(tmp_path, "label,judged,arm", "right,0,none", "wrong,0,none")
    with pytest.raises(ConfigError, match=r"below --min-judge-agreement 0\.9"):
        refuse_poor_judge(read_labels(labels), 0.9)
    refuse_poor_judge(read_labels(labels), 0.5)
    with pytest.raises(ConfigError, match="the judge agrees with people on"):
        labels_by_arm(labels, ["none"], 0.9)


def test_an_arm_without_labels_is_named_before_anything_is_spent(tmp_path: Path) -> None:
    labels = file(tmp_path, "label,judged,arm", "right,1,none", "wrong,0,none", "right,1,other")
    with pytest.raises(DataError, match="has 1 label of the arm 'other'"):
        labels_by_arm(labels, ["none", "other"])
    settings = given_settings(
        CompareSettings,
        {
            "arms": ("none", "other=none,temperature=1"),
            "domains": ("math",),
            "limit": 2,
            "judge_labels": labels,
            "store": tmp_path,
        },
    )
    with pytest.raises(DataError, match="label at least 2 of each"):
        plan_comparison(settings)


def test_judge_check_prints_the_agreement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = file(tmp_path, "label,judged,class", "right,1,short", "wrong,1,long", "wrong,0,long", "right,1,short")
    assert run(["judge", "check", labels]) == 0
    said = capsys.readouterr().out
    assert "agreement  75% [30%, 95%] of 4, kappa 0.50" in said
    assert "person 0, judge 1: 1" in said
    assert said.index("long: 50%") < said.index("short: 100%")


@pytest.mark.slow
def test_a_comparison_is_corrected_for_a_judge_that_likes_one_arm(tmp_path: Path) -> None:
    def answer(task: Task, lessons: str) -> str:
        return f"{task.problem}{'!' if lessons else ''}"

    def kind(_task: Task, output: str) -> bool:
        return output.endswith(("!", "0", "2", "4", "6", "8"))

    truth = ["label,judged,arm"]
    truth += [f"{'right' if number % 2 == 0 else 'wrong'},1,shouting" for number in range(40)]
    truth += [f"{'right' if number % 2 == 0 else 'wrong'},{int(number % 2 == 0)},none" for number in range(40)]
    given: dict[str, Any] = {"reward": kind, "store": tmp_path, "k": 1, "progress": False}
    tasks = [str(number) for number in range(40)]
    found = compare_sync(
        answer, tasks, arms={"none": None, "shouting": ["Shout."]}, judge_labels=file(tmp_path, *truth), **given
    )
    (contrast,) = found.contrasts
    assert contrast.mean == 0.5
    assert contrast.judge is not None
    assert contrast.judge.mean == pytest.approx(0.0)
    assert contrast.judge.low < 0 < contrast.judge.high
    assert any("corrected for the judge's errors by 40 and 40 labels" in note for note in found.notes)


@pytest.mark.slow
def test_a_sheet_holds_answers_of_each_arm_and_a_judge_is_asked_about_them(tmp_path: Path) -> None:
    store, rollouts, sheet = (str(tmp_path / name) for name in ("store", "rollouts.csv", "sheet.csv"))
    given = ["--store", store, "--yes", "--limit", "6", "-k", "1"]
    assert run(["compare", "none", "other=none,temperature=1", "--domain", "math", *given, "--out", rollouts]) == 0
    assert run(["judge", "sheet", rollouts, "--out", sheet, "--answers", "4", "--store", store]) == 0
    with Path(sheet).open() as written:
        rows = list(csv.DictReader(written))
    assert sorted(row["arm"] for row in rows) == ["none"] * 4 + ["other"] * 4
    assert all(row["problem"] and row["judged"] for row in rows)
    labelled = file(tmp_path, "label,problem,answer,expected", "right,1+1,2,2", "wrong,2+2,5,4", "right,3+3,7,6")
    assert run(["judge", "check", labelled, "--reward", "exact"]) == 0
