"""`agentlearn compare` on a stub service: reuse, corrections, output and errors."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentlearn.cli.app import run as command
from agentlearn.store import read_store
from agentlearn_evals import CompareSettings, Comparison, run_comparison_sync
from tests.support.command import agentlearn_here
from tests.support.openai_script import Reply, Request, Solver
from tests.support.openai_stub import OpenAIStub

GOOD = "When numbers are added, add the ones first and carry what is left."
PLACEBO = "Quiet mornings bring gentle winds over the harbour and the old wooden pier."
PROBLEMS = {f"What is {n} plus {n + 3}, in whole numbers?": str(2 * n + 3) for n in range(110, 134)}
RUN = Callable[..., Comparison]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lesson in {"good": GOOD, "placebo": PLACEBO, "other": f"{GOOD} Then check it."}.items():
        write(name, lesson)
    rows = [json.dumps({"problem": problem, "answer": answer}) for problem, answer in PROBLEMS.items()]
    Path("sums.jsonl").write_text("\n".join(rows))
    return tmp_path


def write(name: str, *lessons: str) -> None:
    form = {"experiences": {f"G{n}": lesson for n, lesson in enumerate(lessons)}, "next_id": len(lessons)}
    Path(f"{name}.json").write_text(json.dumps(form))


@pytest.fixture
def service(folder: Path) -> Iterator[OpenAIStub]:
    """A model that is always right with the good lesson, and half of the time without it."""
    usual, helped = (Solver(answers=PROBLEMS, success_rate=rate, final="{0}".format) for rate in (0.5, 1.0))

    def script(request: Request) -> Reply:
        return (helped if GOOD in str(request["messages"]) else usual)(request)

    with OpenAIStub(script) as stub:
        yield stub


@pytest.fixture
def run(service: OpenAIStub) -> RUN:
    def compare(*arms: str, **more: object) -> Comparison:
        given = {"arms": arms, "domains": ("sums.jsonl",), "limit": 8, "k": 2, "store": Path("store")}
        given |= {"models": (f"{service.base_url}#m",), "reward": "number", "tools": "none"}
        return run_comparison_sync(CompareSettings.model_validate(given | more))

    return compare


def reused(found: Comparison) -> dict[str, int]:
    return {arm.arm: arm.reused for arm in found.arms}


@pytest.mark.slow
def test_rollouts_grow_without_paying_again_and_a_new_arm_is_compared_with_rollouts_of_its_time(
    run: RUN, service: OpenAIStub
) -> None:
    first = run("none", "good.json")
    assert reused(first) == {"none": 0, "good": 0}
    asked = len(service.requests)
    again = run("none", "good.json")
    assert reused(again) == {"none": 16, "good": 16}
    assert len(service.requests) == asked
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


def test_the_helpful_library_wins_the_placebo_does_not_and_any_pair_is_compared_everywhere(
    run: RUN, service: OpenAIStub
) -> None:
    arms = ("none", "good.json", "placebo.json")
    found = run(*arms, limit=24, pairs="all")
    assert [one.verdict for one in found.contrasts] == ["better", "cannot_tell", "worse"]
    assert found.contrasts[2].sentence.startswith("placebo is worse than good: ")
    assert {(one.arm, one.baseline) for one in found.flips} >= {("good", "none"), ("placebo", "good")}
    assert found.arms[1].tokens_library
    assert found.arms[0].tokens_library == 0
    with read_store(Path("store")) as reader:
        mine, other = (reader.trajectory(one) for one in (found.flips[0].rollout, found.flips[0].baseline_rollout))
    assert (mine.task, mine.g, mine.seed) == (other.task, other.g, other.seed)
    assert mine.reward != other.reward
    assert found.reproducibility.data
    assert set(found.reproducibility.libraries) == {"none", "good", "placebo"}
    small = ("--domain", "sums.jsonl", "--reward", "number", "--model", f"{service.base_url}#m", "--limit", "24")
    pairs = ("-k", "2", "--tools", "none", "--store", "store", "--pair", "good:placebo", "--pair", "none:good")
    done = agentlearn_here("compare", *arms, *small, *pairs, "--fail-if", "worse", cwd=Path(), expect=1)
    assert "placebo is worse than good: " in done.stdout
    assert "placebo - good" in done.stdout
    assert "placebo: worse than good" in done.stderr
    page = max(Path("store/reports").glob("*.html"), key=lambda one: one.stat().st_mtime).read_text()
    assert "These 2 pairs of arms are compared" in page
    assert "placebo compared with good, by task" in page
    listed = agentlearn_here("runs", "list", "--store", "store", cwd=Path()).stdout
    assert "placebo - good worse, good - none better" in listed


def test_a_task_whose_answer_a_lesson_holds_is_not_counted_and_the_others_are(run: RUN) -> None:
    write("leaking", GOOD, f"For such a problem the result is {max(list(PROBLEMS.values())[:8], key=len)}.")
    found = run("none", "leaking.json", "good.json")
    assert any("tasks is not counted: 1 lesson (" in note for note in found.notes)
    assert found.contrasts[0].tasks == len(found.tasks) == 7


def test_a_method_is_compared_over_its_learning_seeds(run: RUN) -> None:
    found = run("none", "good.json", "other.json", methods=("m=good+other",))
    (line,) = found.methods
    assert line.mean == pytest.approx(sum(one.mean or 0 for one in found.contrasts) / 2)
    assert "learning seeds" in line.note


def test_several_domains_make_a_matrix(run: RUN) -> None:
    lines = Path("sums.jsonl").read_text().splitlines()
    Path("mine.jsonl").write_text("\n".join(lines[12:]))
    Path("sums.jsonl").write_text("\n".join(lines[:12]))
    found = run("none", "good.json", domains=("sums.jsonl", "mine.jsonl"), limit=5)
    cells = {(one.name, one.arm) for one in found.slices if one.by == "domain"}
    assert cells == {(name, arm) for name in ("sums", "mine") for arm in ("none", "good")}
    assert len(found.tasks) == 10


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_the_command_writes_a_page_and_what_is_asked_for() -> None:
    small = ("--domain", "math", "--model", "sim:novice", "--limit", "4", "-k", "1", "--store", "store")
    arms = ("none", "good.json")
    plain = agentlearn_here("compare", *arms, *small, "--out", "rows.csv", "--out", "found.json", cwd=Path())
    assert "simulated model" in plain.stdout
    (page,) = Path("store/reports").glob("*.html")
    assert str(page) in plain.stdout
    assert "<script" not in plain.stdout
    found = Comparison.model_validate_json(Path("found.json").read_text())
    assert found.names == ("none", "good")
    assert found.simulated
    assert len(Path("rows.csv").read_text().splitlines()) == 9
    listed = json.loads(agentlearn_here("runs", "list", "--store", "store", "--json", cwd=Path()).stdout)["runs"]
    assert [(one["kind"], one["state"]) for one in listed] == [("eval", "done")]
    small = (*small, "--json", "--fail-if", "not_better")
    failing = agentlearn_here("compare", "good.json", "none", *small, cwd=Path(), expect=1)
    assert json.loads(failing.stdout)["baseline"] == "good"
    assert "none: not better than good" in failing.stderr
    logs = agentlearn_here("compare", "--logs", "rows.csv", "--store", "store", "--json", cwd=Path())
    theirs, ours = json.loads(logs.stdout)["contrasts"][0], json.loads(Path("found.json").read_text())["contrasts"][0]
    names = ("mean", "low", "high", "p")
    assert [theirs[name] for name in names] == pytest.approx([ours[name] for name in names])


def test_bad_input_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "of nobody")
    hot = "none x=none,temperature=1"
    sentences = {
        "": "say what to compare",
        "none": "only one arm",
        "none gone": "'gone' is not in the library store",
        f"{hot} --domain maths": "'maths' is not installed",
        f"{hot} --k 0": "--k is '0'",
        f"{hot} --margin 2": "margin is 2",
        f"{hot} --out x.pdf": "x.pdf",
        "none x=none,model=openai:gpt-5-mini --domain math": "--yes or --max-cost-usd",
        hot: "--domain math or web",
        f"{hot} --domain math --method m=x": "two or more different arms",
    }
    for arguments, words in sentences.items():
        with subtests.test(arguments):
            assert command(["compare", *arguments.split()]) == 2
            printed = capsys.readouterr()
            assert words in printed.err
            assert len(printed.err.strip().splitlines()) == 1
            assert printed.out == ""
            assert not (tmp_path / ".agentlearn").exists(), "nothing was begun"


def test_a_dry_run_prints_the_forecast_and_spends_nothing(tmp_path: Path) -> None:
    arms = ("none", "x=none,model=openai:gpt-5-mini")
    done = agentlearn_here("compare", *arms, "--domain", "math", "--dry-run", cwd=tmp_path)
    assert "480 rollouts to make" in done.stdout
    assert "$" in done.stdout
    assert not (tmp_path / ".agentlearn").exists()


def test_a_library_is_measured_lesson_by_lesson_with_another_model(
    service: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    for lesson in (GOOD, PLACEBO):
        assert command(["library", "add", "two", lesson, "--store", "store"]) == 0
    capsys.readouterr()
    model = f"{service.base_url}#new"
    options = f"--domain sums.jsonl --reward number --model {model} --k 4 --store store --yes".split()
    assert command(["library", "survive", "two", *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    points = {one["lesson"]: one["evidence"]["points"] for one in found["lessons"]}
    assert points[GOOD] > 20 > abs(points[PLACEBO])
    assert (
        command(["library", "survive", "two", "--domain", "sums.jsonl", "--reward", "number", "--store", "store"]) == 2
    )
