"""`compare` refuses contradictory options and unwritable files before it starts."""

import json
from pathlib import Path

import pytest

from agentlearn.cli.app import run as command
from agentlearn.errors import AgentlearnError
from agentlearn_evals import CompareSettings, compare_logs
from agentlearn_evals.before_calls import BeforeCalls
from agentlearn_evals.plan import plan_comparison
from agentlearn_evals.write_results import write_all

ARMS = ("none", "hot=none,temperature=1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [f"t{task},{arm},{g},{int(arm == 'b')}" for arm in "ab" for task in range(8) for g in range(2)]
    Path("logs.csv").write_text("\n".join(["task,arm,g,score", *rows]))
    Path("own.jsonl").write_text(json.dumps({"problem": "What is 2 + 2?", "answer": "4"}) + "\n")
    Path("folder.json").mkdir()
    return tmp_path


def test_any_arm_can_be_the_baseline() -> None:
    found = compare_logs(["logs.csv"], baseline="b").comparison
    assert (found.baseline, found.names, found.contrasts[0].verdict) == ("b", ("b", "a"), "worse")
    plan = plan_comparison(CompareSettings(arms=ARMS, domains=("math",), limit=4, baseline="hot"))
    assert [arm.name for arm in plan.arms] == ["hot", "none"]


def test_scores_of_a_stated_range_get_bounds_and_failures_the_lowest_score() -> None:
    rows = [f"t{task},{arm},{g},{[-1, 1][arm == 'b']},ok" for arm in "ab" for task in range(12) for g in range(4)]
    rows[0], rows[60] = "t0,a,0,,undecided", "t3,b,0,,failed"
    Path("ranged.csv").write_text("\n".join(["task,arm,g,score,status", *rows]))
    assert compare_logs(["ranged.csv"]).comparison.contrasts[0].withheld_code == "bounds"
    found = compare_logs(["ranged.csv"], score_range=(-1, 1)).comparison
    assert found.contrasts[0].verdict == "better"
    assert found.contrasts[0].worst is not None
    assert found.contrasts[0].worst.high <= 2
    assert found.tasks[3].scores == (-1.0, 0.5)
    assert "b: 1 of 48 rollouts failed and count as -1 (no code 1)" in found.warnings


def test_contradictory_options_are_refused(capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests) -> None:
    for arguments, words in [
        (("--logs", "logs.csv", "--dry-run", "--json"), "--dry-run: not with --logs"),
        (
            ("--logs", "logs.csv", "--domain", "math", "--model", "sim:expert", "-k", "3", "--fresh"),
            "--k, --model, --fresh: not with --logs",
        ),
        (("--logs", "logs.csv", "--method", "m=a+b"), "--method: not with --logs"),
        (("--logs", "logs.csv", "--out", "folder.json"), "'folder.json' is a directory"),
        ((*ARMS, "--domain", "math", "--allow-missing"), "--allow-missing is only for --logs"),
        ((*ARMS, "--domain", "math", "--reward", "exact"), "math has its own reward"),
        ((*ARMS, "--domain", "math", "--tools", "python"), "math has its own tools"),
        ((*ARMS, "--domain", "math", "--judge", "sim:expert"), "is not needed, because no model judges"),
        ((*ARMS, "--domain", "math", "--method", "m=hot", "--dry-run"), "two or more different arms"),
        (
            (*ARMS, "b=none,temperature=0", "--domain", "math", "--method", "m=hot+b", "--method", "m=b+hot"),
            "two methods are named 'm'",
        ),
        (("none", "hot=none,temperature=1,temperature=2", "--domain", "math"), "gives temperature twice"),
        ((*ARMS, "--domain", "math", "--log", "silly"), "--log 'silly' is not a level"),
        (
            (*ARMS, "--domain", "math", "--baseline", "cold"),
            "there is no arm 'cold' to be the baseline (arms: 'none', 'hot')",
        ),
        (("--logs", "logs.csv", "--baseline", "c"), "there is no arm 'c' to be the baseline (arms: 'a', 'b')"),
        (("--logs", "logs.csv", "--score-range", "1,-1"), "the score range '1,-1' is not a lowest and a highest score"),
        (("--logs", "logs.csv", "--score-range", "5"), "the score range '5' is not a lowest and a highest score"),
        (
            ("--logs", "logs.csv", "--score-range", "-1,0.5"),
            "the score 1.0 of 'b' (task 't0', rollout 0) and 15 more is outside the stated range -1 to 0.5",
        ),
        (("--logs", "logs.csv", "--margin", "1"), "margin is 1; it must be below 1, the largest possible difference"),
    ]:
        with subtests.test(repr((arguments, words))):
            assert command(["compare", *arguments]) == 2
            printed = capsys.readouterr()
            assert words in printed.err
            assert len(printed.err.splitlines()) == 1
            assert ("error" in json.loads(printed.out)) if "--json" in arguments else printed.out == ""
            assert not Path(".agentlearn").exists(), "nothing was begun"


def test_one_judge_judges_all_arms_and_is_confirmed_before_it_is_paid() -> None:
    arms = ("a=none,model=openai:gpt-5-mini", "b=none,model=sim:novice")
    own = {"arms": arms, "data": "own.jsonl", "reward": "judge"}
    plan = plan_comparison(CompareSettings.model_validate(own))
    assert {plan.conditions(arm, plan.task_sets[0]).judge for arm in plan.arms} == {"openai:gpt-5-mini"}
    assert plan.models == ("openai:gpt-5-mini", "sim:novice")
    free = ("none", "hot=none,temperature=1")
    planned = plan_comparison(CompareSettings.model_validate(own | {"arms": free, "judge": "openai:gpt-5"}))
    paid = BeforeCalls(planned, None).forecast()
    assert paid.paid == ["openai:gpt-5, the judge"]
    assert any(label == "judge" and words.startswith("openai:gpt-5, the judge: ") for label, words in paid.lines())


def test_logs_are_compared_when_the_store_cannot_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("no folder")
    assert command(["compare", "--logs", "logs.csv", "--store", "file", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["contrasts"][0]["verdict"] == "better"
    assert found["looks_note"].startswith(
        "looks cannot be counted, so p is not corrected for earlier ones: the store 'file'"
    )
    assert command(["compare", "--logs", "logs.csv", "--store", "file"]) == 0
    printed = capsys.readouterr()
    assert "looks cannot be counted, so p is not corrected for earlier ones: the store 'file'" in printed.out
    assert "page" not in printed.out


def test_a_page_that_cannot_be_written_is_an_error_when_the_comparison_is_stored() -> None:
    done = compare_logs(["logs.csv"], store=Path("store"))
    Path("file").write_text("no folder")
    with pytest.raises(AgentlearnError) as refused:
        write_all(done, store=Path("file"), out=())
    assert refused.value.code == "not_written"
