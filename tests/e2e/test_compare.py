"""`agentlearn compare` with simulated models: reuse, corrections, output and errors."""

import json
from pathlib import Path

import pytest

from agentlearn.cli.app import run as command
from agentlearn.errors import BudgetExceeded, ConfigError
from agentlearn.store import read_store
from agentlearn_evals import CompareSettings, Comparison, run_comparison_sync
from tests.support.command import agentlearn, agentlearn_here

GOOD = (
    "When a range has two ends, include both endpoints of the range.",
    "When objects are unordered, count each unordered choice once.",
    "When numbers are large, calculate with whole numbers and exact quotients throughout.",
    "When a result in lowest terms is asked for, divide numerator and denominator by their gcd.",
    "When a program looks for all solutions, derive the search limit from the given numbers.",
    "When values may be nonnegative, always start the loops at zero.",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("good", GOOD)
    write("placebo", ("Quiet mornings bring gentle winds over the harbour and the old wooden pier.",))
    return tmp_path


def write(name: str, lessons: tuple[str, ...]) -> None:
    form = {"experiences": {f"G{n}": lesson for n, lesson in enumerate(lessons)}, "next_id": len(lessons)}
    Path(f"{name}.json").write_text(json.dumps(form))


def run(*arms: str, **more: object) -> Comparison:
    given = {"arms": arms, "domains": ("math",), "limit": 8, "k": 2, "store": Path("store")}
    given["models"] = ("sim:novice",)
    return run_comparison_sync(CompareSettings.model_validate(given | more))


def asked(run: str) -> int:
    """Model calls that a run made."""
    with read_store(Path("store")) as reader:
        return sum(stage.calls for stage in reader.stage_totals(reader.run(run).run))


def reused(found: Comparison) -> dict[str, int]:
    return {arm.arm: arm.reused for arm in found.arms}


@pytest.mark.usefixtures("folder")
def test_rollouts_grow_without_paying_again_and_a_new_arm_is_compared_with_rollouts_of_its_time() -> None:
    first = run("none", "good.json")
    assert reused(first) == {"none": 0, "good": 0}
    again = run("none", "good.json")
    assert reused(again) == {"none": 16, "good": 16}
    assert asked(again.run) == 0
    assert again.contrasts[0].model_dump() == first.contrasts[0].model_dump(), "the same look, seen again"
    grown = run("none", "good.json", k=3)
    assert reused(grown) == {"none": 16, "good": 16}
    assert [arm.rollouts for arm in grown.arms] == [24, 24]
    contrast = grown.contrasts[0]
    assert (contrast.look, contrast.pairs, first.contrasts[0].pairs) == (2, 24, 16)
    assert contrast.p is not None
    assert contrast.p_adjusted == pytest.approx(min(1, 8 * contrast.p))
    assert [look.pairs for look in grown.looks] == [16]
    added = run("none", "good.json", "placebo.json")
    assert reused(added) == {"none": 0, "good": 0, "placebo": 0}
    assert any(note.startswith("16 stored rollouts of none were made again") for note in added.notes)
    assert reused(run("none", "good.json", k=3)) == {"none": 24, "good": 24}


@pytest.mark.usefixtures("folder")
def test_any_pair_of_arms_is_compared_everywhere() -> None:
    arms = ("none", "good.json", "placebo.json")
    found = run(*arms, limit=24, pairs="all")
    assert [one.verdict for one in found.contrasts] == ["better", "cannot_tell", "worse"]
    assert found.contrasts[2].sentence.startswith("placebo is worse than good: ")
    assert {(one.arm, one.baseline) for one in found.flips} >= {("good", "none"), ("placebo", "good")}
    small = ("--domain", "math", "--model", "sim:novice", "--limit", "24", "-k", "2", "--store", "store")
    pairs = ("--pair", "good:placebo", "--pair", "none:good")
    done = agentlearn_here("compare", *arms, *small, *pairs, "--fail-if", "worse", cwd=Path(), expect=1)
    assert "placebo is worse than good: " in done.stdout
    assert "placebo - good" in done.stdout
    assert "placebo: worse than good" in done.stderr
    page = max(Path("store/reports").glob("*.html"), key=lambda one: one.stat().st_mtime).read_text()
    assert "These 2 pairs of arms are compared" in page
    assert "placebo compared with good, by task" in page
    listed = agentlearn_here("runs", "list", "--store", "store", cwd=Path()).stdout
    assert "placebo - good worse, good - none better" in listed


@pytest.mark.usefixtures("folder")
def test_the_helpful_library_wins_and_the_placebo_does_not() -> None:
    found = run("none", "good.json", "placebo.json", limit=24, margin=0.1)
    by_arm = {one.arm: one for one in found.contrasts}
    assert by_arm["good"].verdict == "better"
    assert by_arm["placebo"].verdict in {"cannot_tell", "no_worse"}
    assert found.simulated
    assert found.arms[1].tokens_library
    assert found.arms[0].tokens_library == 0
    assert found.flips[0].rollout
    with read_store(Path("store")) as reader:
        mine, other = (reader.trajectory(one) for one in (found.flips[0].rollout, found.flips[0].baseline_rollout))
    assert (mine.task, mine.g, mine.seed) == (other.task, other.g, other.seed)
    assert mine.reward != other.reward
    assert found.reproducibility.data
    assert set(found.reproducibility.libraries) == {"none", "good", "placebo"}


@pytest.mark.usefixtures("folder")
def test_a_library_that_holds_answers_is_flagged_and_gets_no_verdict() -> None:
    from agentlearn_math import domain

    leaked = max((task.answer or "" for task in domain.tasks("test", seed=0, limit=8)), key=len)
    write("leaking", (*GOOD, f"For such a problem the result is {leaked}."))
    with pytest.raises(ConfigError, match="Cannot tell anything about 'leaking', whatever it scores: 1 of its lessons"):
        run("none", "leaking.json")
    found = run("none", "leaking.json", "good.json")
    assert [flag.code for flag in found.flags] == ["leaks_answer"]
    assert found.contrasts[0].verdict == "cannot_tell"


@pytest.mark.usefixtures("folder")
def test_instructions_and_temperature_are_arms() -> None:
    Path("curt.md").write_text("Answer at once and use no tool.")
    found = run("none", "curt=none,instructions=curt.md", "hot=none,temperature=1.5", limit=4)
    assert [arm.arm for arm in found.arms] == ["none", "curt", "hot"]
    with read_store(Path("store")) as reader:
        traces = [reader.trajectory(line.rollout) for line in found.flips if line.rollout]
    assert all(one.treatment.temperature in {0.3, 1.5} for one in traces)
    names = {name.rpartition(":")[2].partition("/")[0] for name in found.reproducibility.prompts}
    assert "instructions" in names


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_stopped_comparison_continues() -> None:
    with pytest.raises(BudgetExceeded):
        run("none", "good.json", max_tokens=20_000, concurrency=4)
    found = run("none", "good.json")
    assert sum(reused(found).values()) > 0
    whole = run("none", "good.json", fresh=True)
    assert sum(reused(whole).values()) == 0
    assert [arm.score for arm in whole.arms] == [arm.score for arm in found.arms]


@pytest.mark.usefixtures("folder")
def test_a_sequential_comparison_that_stops_early_counts_as_reused_only_what_it_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run("none", "good.json", k=1)
    monkeypatch.setattr("agentlearn_evals.sequential.SequentialDesign.has_verdict", lambda *_: True)
    found = run("none", "good.json", k=1, sequential=True)
    assert found.sequential.startswith("stopped early")
    assert all(arm.reused == arm.rollouts == len(found.tasks) < 8 for arm in found.arms)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_tasks_that_were_learned_from_are_noticed() -> None:
    report = json.loads(
        agentlearn(
            *("learn", "math", "--model", "sim:novice", "--limit", "6", "--epochs", "1", "--no-eval"),
            *("--store", "store", "--json"),
            cwd=Path(),
        ).stdout
    )
    assert report["library"]["lessons"] > 0
    from agentlearn_math import domain

    rows = [{"problem": task.problem, "answer": task.answer} for task in domain.tasks("train", seed=0, limit=6)]
    Path("seen.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ConfigError, match=r"Cannot tell anything about 'math', .* 6 of the 6 tasks"):
        run("none", "math", data="seen.jsonl", k=1)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_several_domains_make_a_matrix() -> None:
    from agentlearn_math import domain

    rows = [{"problem": task.problem, "answer": task.answer} for task in domain.tasks("train", seed=5, limit=5)]
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = run("none", "good.json", domains=("math", "mine.jsonl"), reward="number", tools="python", limit=5)
    cells = {(one.name, one.arm) for one in found.slices if one.by == "domain"}
    assert cells == {(name, arm) for name in ("math", "mine") for arm in ("none", "good")}
    assert len(found.tasks) == 10


@pytest.mark.usefixtures("folder")
def test_the_command_writes_a_page_and_what_is_asked_for() -> None:
    small = ("--domain", "math", "--model", "sim:novice", "--limit", "12", "-k", "1", "--store", "store")
    plain = agentlearn("compare", "none", "good.json", *small, "--out", "rows.csv", "--out", "found.json", cwd=Path())
    assert "simulated models" in plain.stdout
    (page,) = Path("store/reports").glob("*.html")
    assert str(page) in plain.stdout
    assert "<script" not in plain.stdout
    assert Comparison.model_validate_json(Path("found.json").read_text()).names == ("none", "good")
    assert len(Path("rows.csv").read_text().splitlines()) == 25
    listed = json.loads(agentlearn_here("runs", "list", "--store", "store", "--json", cwd=Path()).stdout)["runs"]
    assert [(one["kind"], one["state"]) for one in listed] == [("eval", "done")]
    small = (*small, "--json", "--fail-if", "not_better")
    failing = agentlearn_here("compare", "good.json", "none", *small, cwd=Path(), expect=1)
    assert json.loads(failing.stdout)["baseline"] == "good"
    assert "none: not better than good" in failing.stderr
    logs = agentlearn_here("compare", "--logs", "rows.csv", "--store", "store", "--json", cwd=Path())
    theirs, ours = json.loads(logs.stdout)["contrasts"][0], json.loads(Path("found.json").read_text())["contrasts"][0]
    assert [theirs[name] for name in ("mean", "low", "high", "p")] == pytest.approx(
        [ours[name] for name in ("mean", "low", "high", "p")]
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "say what to compare"),
        (("none",), "only one arm"),
        (("none", "gone"), "'gone' is not in the library store"),
        (("none", "x=none,temperature=1", "--domain", "maths"), "'maths' is not installed"),
        (("none", "x=none,temperature=1", "--k", "0"), "k is 0"),
        (("none", "x=none,temperature=1", "--margin", "2"), "margin is 2"),
        (("none", "x=none,temperature=1", "--out", "x.pdf"), "x.pdf"),
        (("none", "x=none,model=openai:gpt-5-mini", "--domain", "math"), "--yes or --max-cost-usd"),
        (("none", "x=none,temperature=1"), "--domain math or miniwob or web"),
        (("none", "x=none,temperature=1", "--domain", "math", "--method", "m=x"), "two or more different arms"),
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
    monkeypatch.setenv("OPENAI_API_KEY", "of nobody")
    assert command(["compare", *arguments]) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert printed.out == ""
    assert not (tmp_path / ".agentlearn").exists(), "nothing was begun"


def test_a_dry_run_prints_the_forecast_and_spends_nothing(tmp_path: Path) -> None:
    done = agentlearn_here(
        *("compare", "none", "x=none,model=openai:gpt-5-mini", "--domain", "math", "--dry-run"), cwd=tmp_path
    )
    assert "480 rollouts to make" in done.stdout
    assert "$" in done.stdout
    assert not (tmp_path / ".agentlearn").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_sequential_comparison_stops_when_it_has_a_verdict() -> None:
    found = run("good.json", "bad=none", sequential=True, limit=60, k=2)
    assert found.sequential.startswith("stopped early" if len(found.tasks) < 60 else "went through all")
    assert found.contrasts[0].method == "bets"
    assert found.contrasts[0].look == 1
    assert {arm.rollouts for arm in found.arms} == {2 * len(found.tasks)}


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_method_is_compared_over_its_learning_seeds() -> None:
    write("other", GOOD[:3])
    found = run("none", "good.json", "other.json", methods=("m=good+other",))
    (line,) = found.methods
    mean = sum(one.mean or 0 for one in found.contrasts) / 2
    assert line.mean == pytest.approx(mean)
    assert "learning seeds" in line.note


@pytest.mark.usefixtures("folder")
def test_the_page_of_the_docs_shows_a_program_that_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")
    program = page.split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(program, names)
    assert isinstance(names["found"], Comparison)
