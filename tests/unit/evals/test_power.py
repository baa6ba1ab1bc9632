"""`power`: tasks and rollouts that are needed to detect an effect."""

import json
from pathlib import Path

import pytest

from agentlearn.cli.app import run
from agentlearn.errors import ConfigError
from agentlearn_evals.comparison import ArmLine, Comparison, TaskLine
from agentlearn_evals.designing import PowerSettings, power


def test_every_design_finds_the_effect() -> None:
    report = power(PowerSettings(effect=0.05))
    assert [one.k for one in report.designs] == [1, 2, 4, 8, 16, 32]
    assert all(one.detectable <= 0.05 for one in report.designs)
    tasks = [one.tasks for one in report.designs]
    assert tasks == sorted(tasks, reverse=True)
    assert all(one.rollouts == 2 * one.tasks * one.k for one in report.designs)


def test_pairs_of_arms_share_alpha() -> None:
    settings = PowerSettings(k=4, arms=4)
    all_pairs, more_arms = power(settings.model_copy(update={"pairs": 6})), power(PowerSettings(k=4, arms=7))
    assert all_pairs.designs[0].tasks == more_arms.designs[0].tasks > power(settings).designs[0].tasks
    assert all_pairs.designs[0].rollouts == 4 * 4 * all_pairs.designs[0].tasks
    assert all_pairs.notes[0] == "with 6 pairs of arms, each is tested at alpha 0.0083 (Holm's first step)"
    with pytest.raises(ConfigError, match="7 pairs of 4 arms cannot be compared; there are 6"):
        power(settings.model_copy(update={"pairs": 7}))


def test_given_tasks_give_the_number_of_rollouts_needed() -> None:
    report = power(PowerSettings(effect=0.05, tasks=100))
    assert report.rollouts_needed is not None
    enough = next(one for one in report.designs if one.k == report.rollouts_needed)
    assert enough.detectable <= 0.05
    few = power(PowerSettings(effect=0.02, tasks=30))
    assert few.rollouts_needed is None
    assert any("more tasks" in note for note in few.notes)


def test_prices_are_known_unknown_or_zero() -> None:
    costs = [
        power(PowerSettings(k=1, model=model)).designs[0].price.cost_usd
        for model in ("openai:gpt-5-mini", "sim:novice")
    ]
    assert costs[0] is not None
    assert costs[0] > 0
    assert costs[1] == 0
    assert power(PowerSettings(k=1, model="http://127.0.0.1:1/v1#m")).designs[0].price.cost_usd is None


def earlier(rollouts: int, scores: list[tuple[float, float]]) -> Comparison:
    lines = tuple(TaskLine(task=f"t{n}", scores=pair, rollouts=(rollouts, rollouts)) for n, pair in enumerate(scores))
    arms = tuple(ArmLine(arm=arm, label=arm, tasks=len(lines), rollouts=1, counted=1, score=0.5) for arm in "ab")
    return Comparison(run="r", title="a, b", k=rollouts, baseline="a", arms=arms, contrasts=(), tasks=lines)


def test_variances_are_measured_in_an_earlier_comparison() -> None:
    steady = power(PowerSettings(k=4), earlier(4, [(0.0, 1.0), (0.0, 1.0), (0.25, 1.0), (0.0, 1.0)]))
    shaky = power(PowerSettings(k=4), earlier(4, [(0.5, 0.5), (0.5, 0.75), (0.25, 0.5), (0.75, 0.5)]))
    assert steady.designs[0].tasks < shaky.designs[0].tasks
    assert steady.measured == "r"
    assert not any("guessed" in note for note in steady.notes)


@pytest.mark.parametrize(
    ("found", "code"),
    [(earlier(1, [(0.0, 1.0), (1.0, 1.0)]), "bad_config"), (earlier(4, [(0.1, 0.9), (0.3, 0.5)]), "bad_config")],
)
def test_a_comparison_without_variances_is_refused(found: Comparison, code: str) -> None:
    with pytest.raises(ConfigError) as refused:
        power(PowerSettings(), found)
    assert refused.value.code == code


def test_the_command_prints_designs_and_takes_variances_from_an_earlier_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["power", "--effect", "0.1", "--tasks", "40"]) == 0
    printed = capsys.readouterr().out
    assert "to detect a difference of 0.1 with 80% power" in printed
    assert "rollouts each" in printed
    Path("earlier.json").write_text(earlier(4, [(0.0, 1.0), (0.25, 1.0), (0.0, 0.75)]).model_dump_json())
    assert run(["power", "--like", "earlier.json", "--k", "4", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["measured"] == "r"
    assert len(report["designs"]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--like", "gone.json"), "gone.json"),
        (("--like", "bad.json"), "does not contain a comparison"),
        (("--like", "01m"), "no store"),
        (("--effect", "2"), "--effect is '2'"),
        (("--baseline", "0.5", "--task-spread", "0.9"), "task_spread"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("{}")
    assert run(["power", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert len(printed.err.strip().splitlines()) == 1


def test_no_number_of_tasks_may_be_enough_for_few_clusters() -> None:
    report = power(PowerSettings(effect=0.05, k=4, clusters=10))
    assert report.designs == ()
    assert report.notes[-1] == (
        "no number of tasks from 10 clusters detects 0.05, because the clusters differ too much; more clusters are"
        " needed"
    )


def test_clusters_are_measured_in_an_earlier_comparison() -> None:
    found = earlier(4, [(0.0, 1.0), (0.25, 1.0), (0.5, 0.25), (0.75, 0.5), (0.5, 0.5), (0.25, 0.25)])
    lines = [line.model_copy(update={"cluster": f"c{n // 2}"}) for n, line in enumerate(found.tasks)]
    report = power(PowerSettings(effect=0.2, tasks=60, k=4), found.model_copy(update={"tasks": tuple(lines)}))
    assert report.clusters is not None
    assert (report.clusters.size, report.clusters.alike) == (2, 1)
    other = power(
        PowerSettings(effect=0.2, tasks=60, k=4, cluster_share=0), found.model_copy(update={"tasks": tuple(lines)})
    )
    assert other.designs[0].chance > report.designs[0].chance


def test_tasks_without_a_score_are_left_out_of_the_variances() -> None:
    found = earlier(4, [(0.0, 1.0), (0.25, 1.0), (0.5, 0.25)])
    lost = TaskLine(task="lost", scores=(None, None), rollouts=(0, 0))
    with_lost = found.model_copy(update={"tasks": (*found.tasks, lost)})
    assert power(PowerSettings(k=4), with_lost).parts == power(PowerSettings(k=4), found).parts
