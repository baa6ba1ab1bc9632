"""Every command that only looks, in this process, over one small run: what it prints, and in which form."""

import json
import re
import shutil
from pathlib import Path

import pytest

from agentlearn.cli.app import run
from agentlearn.errors import ConfigError
from agentlearn.store import read_store
from agentlearn.store.store_files import Acknowledged
from tests.support.command import output, result


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of one small learn run and one solve."""
    store = tmp_path_factory.mktemp("cli") / "store"
    options = ["--limit", "6", "--epochs", "1", "--no-eval", "--validation-rollouts", "0", "--store", str(store)]
    assert run(["learn", "math", "--model", "sim:novice", *options]) == 0
    assert (
        run(["solve", "math", "What is 1 + 1?", "--model", "sim:novice", "--library", "math", "--store", str(store)])
        == 0
    )
    return store


@pytest.mark.slow
def test_libraries_are_listed_shown_logged_and_exported(
    finished: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (listed,) = result(capsys, finished, "library", "list")["libraries"]
    assert output(capsys, finished, "library", "list").startswith(
        f"math@{listed['version'][:8]}  {listed['lessons']} lessons"
    )
    words = output(capsys, finished, "library", "show", "math")
    assert "[G1] " in words
    shown = result(capsys, finished, "library", "show", f"math@{listed['version'][:6]}")
    assert len(shown["experiences"]) == listed["lessons"]
    assert output(capsys, finished, "library", "log", "math").count("math@") == 1
    assert result(capsys, finished, "library", "log", "math")["versions"][0]["version"] == listed["version"]
    for form in ("agentlearn", "training-free-grpo"):
        out = tmp_path / f"{form}.json"
        assert str(out) in output(capsys, finished, "library", "export", "math", "--out", str(out), "--format", form)
        assert len(result(capsys, finished, "library", "show", str(out))["experiences"]) == listed["lessons"]


def test_doctor_fails_when_something_is_broken(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    broken = tmp_path / "store"
    broken.mkdir()
    (broken / "store.duckdb").write_bytes(b"no database at all" * 100)
    assert run(["doctor", "--store", str(broken)]) == 1
    captured = capsys.readouterr()
    assert "BROKEN" in captured.out
    assert "checks failed" in captured.err


def test_a_run_that_died_reads_as_interrupted(
    finished: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    import asyncio

    from agentlearn.store import open_store
    from agentlearn.types.run_event import RunEvent

    with read_store(copy) as reader:
        row = reader.runs()[1]

    async def die() -> None:
        async with open_store(copy) as store:
            fields = {name: getattr(row, name) for name in RunEvent.model_fields if hasattr(row, name)}
            await store.save_run(RunEvent(**{**fields, "state": "running", "report": ""}))

    asyncio.run(die())
    assert "interrupted" in output(capsys, copy, "runs", "list")


@pytest.mark.parametrize("answer", [["--yes"], ["--max-cost-usd", "5"]])
def test_the_estimate_is_printed_before_a_paid_run_that_was_allowed(
    answer: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--model", "openai:gpt-5-mini", "--store", str(tmp_path / "s"), "--sandbox", "unsafe-local"]
    monkeypatch.setenv("OPENAI_API_KEY", "of nobody")
    monkeypatch.setattr("agentlearn.learning.lessons.run_learning.run_learning", _never_runs)
    assert run(["learn", "math", *options, *answer]) == 2
    first, last = capsys.readouterr().err.splitlines()
    assert re.match(r"openai:gpt-5-mini: about 1,\d{3} rollouts, ", first)
    assert "about $" in first
    assert last.endswith("the run would start")


async def _never_runs(*_given: object, **_options: object) -> None:
    raise ConfigError("the run would start")


@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_a_paid_run_asks_on_a_terminal(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of nobody")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", answer.strip)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    store = str(tmp_path / "s")
    for command in (["learn", "math"], ["solve", "math", "What is 1 + 1?"]):
        assert run([*command, "--model", "openai:gpt-5-mini", "--store", store, "--sandbox", "unsafe-local"]) == 2
        assert "nothing was spent" in capsys.readouterr().err


def test_a_real_store_is_sound_snapshot_and_exported(
    finished: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report = result(capsys, finished, "store", "check")
    assert (report["sound"], report["findings"]) == (True, [])
    assert report["tables"]["trajectory"] > 10
    assert "sound: every table can be read" in output(capsys, finished, "store", "check")
    assert output(capsys, finished, "store", "repair") == f"{finished}: nothing to repair\n"
    written = result(capsys, finished, "store", "snapshot", "--out", str(tmp_path / "slim"))["files"]
    assert {
        "table": "trajectory",
        "path": str(tmp_path / "slim" / "trajectory.parquet"),
        "rows": report["tables"]["trajectory"],
    } in written
    learned = result(capsys, finished, "runs", "list")["runs"][1]["run"]
    options = ("--run", learned[:20], "--outcome", "ok", "--min-reward", "1", "--domain", "math")
    for form in ("openai-jsonl", "trl-jsonl"):
        out = tmp_path / f"{form}.jsonl"
        done = result(capsys, finished, "store", "export", "--format", form, *options, "--out", str(out))
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert 0 < len(lines) == done["rollouts"] < 30
        assert {one["reward"] for one in lines} == {1.0}
    whole = result(capsys, finished, "store", "export", "--format", "parquet", *options, "--out", str(tmp_path / "all"))
    assert whole["rollouts"] == len(lines)


def test_a_log_is_imported_and_shown_like_any_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log, store = tmp_path / "log.jsonl", tmp_path / "store"
    asked, answered = {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}
    log.write_text(json.dumps({"messages": [asked, answered], "reward": 1}))
    done = result(capsys, store, "store", "import", str(log), "--domain", "sums")
    assert (done["rollouts"], done["tasks"], done["rewarded"]) == (1, 1, 1)
    assert "  import   done " in output(capsys, store, "runs", "list")
    (rollout,) = result(capsys, store, "runs", "show", done["run"])["rollouts"]
    assert "verdict    right, reward 1" in output(capsys, store, "trace", rollout["id"])
    assert result(capsys, store, "store", "check")["sound"]


def test_a_damaged_store_fails_its_check_and_is_repaired(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log, store = tmp_path / "log.jsonl", tmp_path / "store"
    asked, answered = {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}
    log.write_text(json.dumps({"messages": [asked, answered]}))
    assert run(["store", "import", str(log), "--domain", "sums", "--store", str(store)]) == 0
    mark = Acknowledged.read(store / "store.hwm")
    assert mark is not None
    mark._replace(commit=7).write(store / "store.hwm")
    assert run(["store", "check", "--store", str(store)]) == 1
    printed = capsys.readouterr()
    assert "broken: the database holds commits up to 3, but 7 were acknowledged" in printed.out
    assert f"fix it with: agentlearn store repair --store {store}" in printed.out
    assert printed.err == f"agentlearn: the store {str(store)!r} has 1 problem, listed above\n"
    assert "lost: 4 acknowledged commits" in output(capsys, store, "store", "repair")
    assert run(["store", "check", "--store", str(store)]) == 0


LEARN = ["learn", "math", "--model", "sim:novice", "--limit", "4", "--epochs", "1", "--no-eval"]
COMMANDS = {
    "runs list": ["runs", "list"],
    "runs show": ["runs", "show", "RUN"],
    "trace": ["trace", "ROLLOUT"],
    "store check": ["store", "check"],
    "store repair": ["store", "repair"],
    "store snapshot": ["store", "snapshot"],
    "store export": ["store", "export", "--format", "openai-jsonl", "--out", "OUT"],
    "learn": LEARN,
    "learn --resume": ["learn", "--resume", "RUN"],
}
BLOCK, HEADERS = 2**18, 3 * 2**12
