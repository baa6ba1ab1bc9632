"""Signals in training, in the last steps of `learn`, in `compare` and before the program has handlers."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentlearn.store import read_store
from tests.support.command import AGENTLEARN, agentlearn, agentlearn_here
from tests.support.signalled import run_and_signal, says

pytestmark = pytest.mark.slow

LEARN = ("learn", "math", "--model", "sim:novice", "--limit", "6", "--epochs", "1", "--batch-size", "6", "--seed", "3")
LESSON = '{"experiences": {"G0": "When a range has two ends, include both endpoints of the range."}, "next_id": 1}'
HOSTILE = "x\x1b[2J\u202e.json"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The report of the run that nothing disturbs."""
    return json.loads(agentlearn(*LEARN, "--json", cwd=tmp_path_factory.mktemp("plain")).stdout)


def library_exists(cwd: Path) -> Callable[[Path], bool]:
    return lambda _: any((cwd / ".agentlearn").rglob("HEAD"))


@pytest.mark.parametrize("moment", ["measuring", "publishing"])
def test_a_signal_after_learning_keeps_the_result_or_goes_on_to_it(
    tmp_path: Path, plain: dict[str, object], moment: str
) -> None:
    after = says("library ") if moment == "measuring" else library_exists(tmp_path)
    done = run_and_signal(*LEARN, cwd=tmp_path, numbers=[signal.SIGTERM], after=after)
    assert (done.noise, done.left, done.files) == ([], (), ())
    if done.status == 0:
        return  # the run had ended
    assert done.status == 143
    assert done.resume is not None
    if done.resume[:2] == ["learn", "--resume"]:
        report = json.loads(agentlearn_here(*done.resume, "--json", cwd=tmp_path).stdout)
        assert report["library"] == plain["library"]
    else:
        assert done.resume[:2] == ["runs", "show"]
        agentlearn_here(*done.resume, cwd=tmp_path)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """A command that trains a tiny model on a few tasks."""
    pytest.importorskip("torch")
    from tests.support.tiny_model import saved, tiny_network

    folder = tmp_path_factory.mktemp("training")
    weights = saved(folder / "tiny", tiny_network(context=1024))
    tasks = folder / "letters.jsonl"
    words = ("plum", "fig", "date", "pear", "lime", "kiwi", "melon", "quince")
    tasks.write_text("".join(json.dumps({"problem": f"Say {one}.", "answer": one}) + "\n" for one in words))
    recipe = folder / "train.yaml"
    recipe.write_text(
        f"domain: letters\nreward: tests.support.letters:share_of_early_letters\ndata: {tasks}\nmodel: {weights}\n"
        "test_share: 0.5\nepochs: 4\nbatch_size: 2\ngroup_size: 2\nmax_output_tokens: 8\neval_rollouts: 1\n"
        "eval_every: 4\nsave_every: 3\ngradient:\n  learning_rate: 0.01\n  loss: grpo\n"
    )
    return ("train", str(recipe))


@pytest.fixture
def importable_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


@pytest.fixture(scope="module")
def trained(training: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """The report of the training that nothing disturbs."""
    env = {"PYTHONPATH": str(Path(__file__).parents[2])}
    return json.loads(agentlearn(*training, "--json", cwd=tmp_path_factory.mktemp("whole"), env=env).stdout)


@pytest.mark.usefixtures("importable_tests")
@pytest.mark.parametrize(
    ("number", "moment"),
    [(signal.SIGINT, "run  "), (signal.SIGTERM, "update 2/8"), (signal.SIGHUP, "update 8/8")],
)
def test_a_signal_to_a_training_goes_on_to_the_same_weights(
    tmp_path: Path,
    training: tuple[str, ...],
    trained: dict[str, dict[str, object]],
    number: signal.Signals,
    moment: str,
) -> None:
    done = run_and_signal(*training, cwd=tmp_path, numbers=[number], after=says(moment))
    assert (done.noise, done.left, done.files) == ([], (), ())
    if done.status == 0:
        return  # the run had ended
    assert done.status == 128 + number
    assert done.resume is not None
    if done.resume[0] == "runs":
        return  # it had ended, and the page was being written
    assert done.resume[:2] == ["train", "--resume"]
    with read_store(tmp_path / ".agentlearn") as reader:
        (row,) = reader.runs()
    assert row.state == "interrupted"
    report = json.loads(agentlearn(*done.resume, "--json", cwd=tmp_path).stdout)
    assert report["weights"]["sha256_after"] == trained["weights"]["sha256_after"]


def scores(comparison: dict[str, list[dict[str, object]]]) -> list[tuple[object, ...]]:
    """The results of the arms, without how many rollouts were reused and what they cost."""
    return [(one["arm"], one["score"], one["low"], one["high"]) for one in comparison["arms"]]


def test_a_comparison_goes_on_to_the_same_verdict(tmp_path: Path) -> None:
    number = signal.SIGINT
    other = tmp_path / "other"
    other.mkdir()
    for folder in (tmp_path, other):
        (folder / "good.json").write_text(LESSON)
    command = ("compare", "none", "good.json", "--domain", "math", "--model", "sim:novice", "--limit", "4", "--k", "2")
    whole = json.loads(agentlearn_here(*command, "--json", cwd=tmp_path).stdout)
    done = run_and_signal(*command, cwd=other, numbers=[number], after=says("  run  "))
    assert (done.noise, done.left, done.files) == ([], (), ())
    if done.status == 0:
        return  # it had ended
    assert done.status == 128 + number
    assert done.resume is not None
    again = json.loads(agentlearn_here(*done.resume, "--json", cwd=other).stdout)
    assert scores(again) == scores(whole)


def test_the_last_words_after_two_signals_hold_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    (tmp_path / HOSTILE).write_text(LESSON)
    command = (
        "compare",
        "none",
        f"mine={HOSTILE}",
        "--domain",
        "math",
        "--model",
        "sim:novice",
        "--limit",
        "200",
        "--k",
        "8",
    )
    done = run_and_signal(*command, cwd=tmp_path, numbers=3 * [signal.SIGINT], after=says("  run  "))
    assert done.status == 130
    printed = "\n".join(done.lines)
    assert "\x1b[2J" not in printed
    assert "\u202e" not in printed
    assert "agentlearn compare" in done.lines[-1]


def test_an_early_interrupt_shows_no_line_of_ours_in_a_traceback(tmp_path: Path) -> None:
    """Python's own start, before it runs a line of agentlearn, cannot be changed from here."""
    for delay_ms in range(0, 300, 30):
        child = subprocess.Popen(
            [str(AGENTLEARN), "library", "list"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ},
            start_new_session=True,
        )
        time.sleep(delay_ms / 1000)
        child.send_signal(signal.SIGINT)
        printed = child.communicate(timeout=60)[0].decode()
        assert "command_process" not in printed
        assert child.returncode in {0, 1, 130, -signal.SIGINT}
