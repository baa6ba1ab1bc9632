"""`library show`: every version that the store holds, and where each lesson comes from."""

from pathlib import Path

import pytest

from agentlearn.cli.app import run
from tests.support.command import output, result


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two learn runs under different names, each with versions that were not published."""
    store = tmp_path_factory.mktemp("versions") / "store"
    options = ["--limit", "4", "--epochs", "2", "--no-eval", "--validation-rollouts", "0"]
    options += ["--model", "sim:novice", "--store", str(store)]
    assert run(["learn", "math", *options]) == 0
    assert run(["learn", "math", *options, "--name", "other", "--seed", "5"]) == 0
    return store


def in_between(capsys: pytest.CaptureFixture[str], store: Path, name: str) -> str:
    """The version before the published one."""
    return str(result(capsys, store, "library", "show", name)["parent"])


def test_a_wrong_version_says_what_exists(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = in_between(capsys, finished, "other")
    capsys.readouterr()
    assert run(["library", "show", f"math@{other[:10]}", "--store", str(finished)]) == 2
    error = capsys.readouterr().err
    assert f"library 'math' has no version starting with '{other[:10]}' (found: " in error
    assert f"agentlearn library show @{other[:10]} --store {finished}" in error
    for reference in ("math@zz", "math@", "@", "mth@12", "mth"):
        assert run(["library", "show", reference, "--store", str(finished)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "found: '" in error


def test_each_lesson_names_the_run_the_tasks_and_the_proposal_that_made_it(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = output(capsys, finished, "library", "show", "math", "--origins")
    shown = result(capsys, finished, "library", "show", "math", "--origins")
    for lesson in shown["experiences"]:
        (origin,) = shown["origins"][lesson["id"]]
        assert f"made in run {origin['run']}, {origin['phase']}/{origin['batch']}" in words
        assert origin["proposal"][:8] in words
        assert origin["groups"]
        for address in origin["groups"]:
            group = result(capsys, finished, "trace", address)
            made = {one["proposal"]["id"]: one["end"] for one in group["consolidated"]}
            assert made[origin["proposal"]]["experience"] == lesson["id"]
        for parent in lesson["origin"]["parents"]:
            assert f"replaces {parent[:8]}: " in words
    assert words.count("effect unknown") == len(shown["experiences"])
