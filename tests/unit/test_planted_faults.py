"""The bench `mutants`: which faults it can plant, how it says that it cannot, and what counts as noticed."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench.bench_mutants import measure, options
from tests.bench.planted_faults import worker
from tests.bench.planted_faults.every_fault import FAULTS
from tests.bench.planted_faults.fault import PACKAGE, Fault, LostAnchors, check_anchors, planted
from tests.bench.planted_faults.planting import BrokenTests, Tried, try_one

ROOT = Path(__file__).parents[2]
FAULT = Fault("the sign is lost", "update/losses.py", "return -loss", "return loss", ("unit/test_it.py",))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    file = tmp_path / PACKAGE / FAULT.file
    file.parent.mkdir(parents=True)
    file.write_text("def f(loss):\n    return -loss\n")
    return tmp_path


def test_there_are_many_faults_and_their_tests_exist() -> None:
    assert len(FAULTS) >= 100
    named = {test.partition("::")[0] for fault in FAULTS for test in fault.tests}
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []
    assert all(fault.old != fault.new for fault in FAULTS)


def test_faults_that_lost_their_place_are_listed_with_the_line_that_is_most_alike(project: Path) -> None:
    check_anchors([FAULT], project)
    lost = planted(
        FAULT.file,
        faults={
            "gone": ("return -losses", "return loss"),
            "twice": ("loss", "gain"),
            "no Python": ("return -loss", "return -"),
        },
    )
    elsewhere = planted("nowhere.py", faults={"elsewhere": ("a", "b")})
    with pytest.raises(LostAnchors) as refused:
        check_anchors([FAULT, *lost, *elsewhere, *elsewhere], project)
    assert str(refused.value).splitlines() == [
        "6 of 6 faults cannot be planted; correct their old text in tests/bench/planted_faults:",
        "update/losses.py: gone: the text 'return -losses' is gone; most like it is now 'return -loss'",
        "update/losses.py: twice: the text 'loss' occurs 2 times",
        "update/losses.py: no Python: its new text is not Python: invalid syntax (losses.py, line 2)",
        "nowhere.py: elsewhere: there is no such file",
        "nowhere.py: elsewhere: there is no such file",
        "two faults have the name 'elsewhere'",
    ]


def found(status: int | None, failed: str = "") -> dict[str, Any]:
    return {"status": status, "failed": failed, "took_s": 1.0, "log": "its log"}


@pytest.mark.parametrize(
    ("results", "state", "killed_by"),
    [
        ([found(1, "a::b")], "killed", "a::b"),
        ([found(None, "a::slow")], "killed", "a::slow"),
        ([found(2, "import of a")], "killed", "import of a"),
        ([found(0), found(1, "c::d")], "killed", "c::d"),
        ([found(0), found(0)], "SURVIVED", ""),
    ],
)
def test_a_fault_is_noticed_when_a_test_fails_or_never_ends(
    results: list[dict[str, Any]], state: str, killed_by: str
) -> None:
    def run(_file: str, source: str, arguments: Sequence[str]) -> dict[str, Any]:
        return results.pop(0)

    tried = try_one(FAULT, "source", run, known=None, quick=False)
    assert (tried.state, tried.killed_by, results) == (state, killed_by, [])
    assert tried.hung == (killed_by == "a::slow")


@pytest.mark.parametrize(("changes_at", "status"), [((), None), ((80, 160), 0), ((80,), None)])
def test_the_limit_is_for_one_test_and_not_for_all_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes_at: Sequence[int], status: int | None
) -> None:
    """A child that ends after 240 s, and begins another test at these times. The limit is 100 s."""
    now = 0
    running = tmp_path / "running"
    running.write_text("a test")

    def second(_pid: int, _options: int) -> tuple[int, int]:
        nonlocal now
        now += 1
        if now in changes_at:
            running.write_text(f"the test that began at {now}")
        return (7, 0) if now == 240 else (0, 0)

    monkeypatch.setattr(worker, "os", SimpleNamespace(waitpid=second, WNOHANG=1, waitstatus_to_exitcode=int))
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: now, sleep=lambda _: None))
    assert worker._wait(7, running, 100) == status


def test_the_test_that_noticed_a_fault_last_time_is_run_first() -> None:
    seen: list[list[str]] = []

    def run(_file: str, _source: str, arguments: Sequence[str]) -> dict[str, Any]:
        seen.append(list(arguments))
        return found(4) if len(seen) == 1 else found(0)

    tried = try_one(FAULT, "source", run, known="a::renamed", quick=True)
    assert (tried.state, seen) == ("SURVIVED", [["a::renamed"], ["tests/unit/test_it.py"]])


def test_tests_that_cannot_run_are_an_error_and_not_a_result() -> None:
    with pytest.raises(BrokenTests, match="pytest ended with status 3 for 'the sign is lost'"):
        try_one(FAULT, "source", lambda *_: found(3), known=None, quick=False)


def test_an_argued_fault_does_not_count_as_a_survivor() -> None:
    argued = planted("x.py", faults={"n": ("a", "b")}, equivalent={"n": "because"})[0]
    assert [Tried(one, "", 0.0).state for one in (FAULT, argued)] == ["SURVIVED", "equivalent"]


@pytest.mark.slow
def test_a_planted_fault_is_noticed_and_the_sources_are_not_touched() -> None:
    pytest.importorskip("torch")
    parser = argparse.ArgumentParser()
    options(parser)
    before = {path: path.read_bytes() for path in (ROOT / PACKAGE).rglob("*.py")}
    made = measure(parser.parse_args(["--only", "gspo halves", "--quick"]))
    assert made.failures == ()
    assert [row.figures["killed"] for row in made.rows] == [1, 1]
    assert before == {path: path.read_bytes() for path in (ROOT / PACKAGE).rglob("*.py")}
    assert measure(parser.parse_args(["--only", "no such fault"])).failures
