"""The page of a learn run: the result first, all the evidence, hostile texts shown and not obeyed."""

import asyncio
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import build, run
from agentlearn.config import GivenSettings, LearnSettings, learn_settings
from agentlearn.domain.chosen_settings import learn_fields
from agentlearn.pages import learn_tables
from agentlearn.pages.figure import shown
from agentlearn.pages.learn_page import learn_page, page_at_the_end, write_learn_page
from agentlearn.pages.learn_record import LearnRecord, run_command
from agentlearn.store import open_store
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RunId
from tests.support.cases import cases
from tests.support.command import agentlearn_here
from tests.support.hostile import HOSTILE, POISON, unseen
from tests.support.learn_records import learn_record
from tests.support.markup import Read
from tests.support.small_math import few_math_tasks
from tests.support.snapshot import assert_snapshot
from tests.unit.store import nouns
from tests.unit.store.test_schema import unpack

SECTIONS = [
    "Held-out result", "Lessons", "Versions of the library", "Where the calls went", "Groups", "Proposals", "Cost",
    "Notes and failures", "Settings and reproduction",
]  # fmt: skip


def page_of(record: LearnRecord) -> Read:
    return Read(learn_page(record))


def with_report(record: LearnRecord, **fields: Any) -> LearnRecord:
    return replace(record, report=record.report.model_copy(update=fields))


def statements(read: Read) -> list[str]:
    """The sentences in large type."""
    return [text for text in read.inside["p"] if text in "".join(read.inside["header"])]


def test_the_page_shows_the_whole_run() -> None:
    assert_snapshot(__file__, "learn_page", page_of(learn_record(tasks=3, epochs=1)).lines)
    read = page_of(learn_record(tasks=20))
    assert statements(read)[1].startswith("Simulated: the learned library is better than the library at the start")
    assert read.inside["h2"] == SECTIONS
    assert "imulated: " not in page_of(learn_record(simulated=False)).text


@pytest.mark.parametrize(
    ("status", "words", "command"),
    cases(__file__, "the_page_says_what_became_of_the_library"),
)
def test_the_page_says_what_became_of_the_library(status: Any, words: str, command: str) -> None:
    record = learn_record()
    choice = record.report.selection
    assert choice is not None
    given = command if status == "pending" else ""
    update = {"status": status, "reason": "it is good", "command": given}
    library = record.report.library
    current = None if status == "pending" else library.version
    changed = {
        "selection": choice.model_copy(update=update),
        "library": library.model_copy(update={"current": current}),
    }
    read = page_of(with_report(record, **changed))
    front = "".join(read.inside["header"])
    assert words in front
    assert command in front
    assert ("pending: to publish it anyway" in front) == (status == "pending")


def test_hostile_texts_are_shown_and_not_obeyed(subtests: pytest.Subtests) -> None:
    for text in [POISON, *HOSTILE]:
        with subtests.test(repr(text)):
            page = learn_page(learn_record(tasks=2, epochs=1, text=text))
            page.encode()
            read = Read(page)
            read.assert_ours()
            assert shown(text).strip()[:300] in read.text
            assert unseen(read.text) <= {"'\\t'"}


def test_a_large_run_stays_small() -> None:
    record = learn_record(tasks=300, epochs=3, text="Find the number of things that are counted. " * 20)
    page = learn_page(record)
    assert len(page.encode()) < 3_000_000
    assert page.count("<details") > 3


def test_long_lists_and_long_texts_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learn_tables, "MOST_GROUPS", 30)
    monkeypatch.setattr(learn_tables, "MOST_PROPOSALS", 60)
    monkeypatch.setattr(learn_tables, "MOST_LESSONS", 2)
    page = learn_page(learn_record(tasks=40, epochs=1, text="\u202e" * 5_000))
    assert len(page.encode()) < 1_000_000
    assert "10 more groups are not on this page" in page
    assert "20 proposals are not on this page" in page
    assert "1 more lessons are not on this page" in page


NOTHING = cases(__file__, "nothing")


def test_a_page_is_written_whatever_is_missing(subtests: pytest.Subtests) -> None:
    for missing in [*NOTHING, "everything"]:
        with subtests.test(repr(missing)):
            gone = NOTHING if missing == "everything" else {missing: NOTHING[missing]}
            record = with_report(learn_record(tasks=1, epochs=1), **gone)
            if missing == "everything":
                empty = {"rollouts": (), "groups": (), "families": (), "proposals": (), "library": None, "origins": {}}
                record = replace(record, **empty, problems={}, lessons={}, settings={"evaluate": False})
            read = page_of(record)
            read.assert_ours()
            assert read.inside["h2"] == SECTIONS
            if missing == "everything":
                assert "because the run was asked not to (--no-eval)" in read.text
                assert "The run had no group to learn from." in read.text


def stored(directory: Path, report: str = "") -> Path:
    """The golden store; report: what its run has in place of a report."""
    unpack(directory)
    if report:

        async def write() -> None:
            async with open_store(directory) as store:
                await store.save_run(nouns.run_event(state="done", report=report))

        asyncio.run(write())
    return directory


def test_a_stored_run_has_a_page(tmp_path: Path) -> None:
    page = write_learn_page(stored(tmp_path), "01jd0000000000000000000000")
    assert page == tmp_path / "reports" / "01jd0000000000000000000000.html"
    read = Read(page.read_text(encoding="utf-8"))
    read.assert_ours()
    out = tmp_path / "else" / "a.html"
    assert write_learn_page(str(tmp_path), "01jd", out) == out
    assert out.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("report", "why"),
    [("no json", "it: Invalid JSON"), ('{"run": 1}', "run: Input should be a valid"), ("[]", "it: Input should")],
)
def test_a_report_of_another_form_is_refused_in_a_sentence(
    tmp_path: Path, report: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["runs", "page", "01jd", "--store", str(stored(tmp_path, report))]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"cannot be read, because agentlearn '0.1.0' wrote it in another form ({why}" in said


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"epochs": 2, "batch_size": 7, "labels": "none", "evaluate": False, "temperature": None, "no_seed": True},
        {"library": "other", "limit": 5, "max_cost_usd": 0.5, "name": "mine", "reflector": "sim:reflector"},
        {"from_store": True, "epochs": 3},
        {"data": "hf:aime24", "test_data": ("hf:a", "hf:b")},
        {"prompt": (f"compare={__file__}", f"repair={__file__}"), "rule": ("mine:one", "announced")},
    ],
)
def test_the_command_on_the_page_gives_the_same_settings(fields: dict[str, Any]) -> None:
    given = learn_settings({**learn_fields("math", GivenSettings({})), "seed": 3, **fields, "store": Path("a b")})
    command = run_command(replace(learn_record().row, settings=given.resolved()), None)
    words = shlex.split(command)
    assert words[:2] == ["agentlearn", "learn"]
    app = build(words[1:])
    _, bound, _ = app.parse_args(words[1:], exit_on_error=False, print_error=False)
    options = {name: value for name, value in bound.arguments.items() if name in LearnSettings.model_fields}
    again = learn_settings(learn_fields(words[2], GivenSettings(options)))
    assert again == given


def test_there_is_no_command_for_a_run_that_a_program_gave_objects_to() -> None:
    row = learn_record().row
    settings = LearnSettings(domain="math", given=("an agent",))
    assert run_command(replace(row, settings=settings.resolved()), None) == ""
    assert run_command(replace(row, settings="{}"), None) == ""
    default = replace(row, settings=LearnSettings(domain="math", model="sim:novice").resolved())
    assert run_command(default, EMPTY_LIBRARY.version).endswith("--from none")
    assert run_command(default, "0123456789abcdef").endswith("--from math@0123456789ab")
    assert run_command(replace(row, settings="{"), None) == ""


def test_a_page_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    stored(tmp_path)
    (tmp_path / "reports").write_text("in the way")
    page, note = page_at_the_end(tmp_path, RunId("01jd0000000000000000000000"))
    assert page is None
    assert note.startswith("the report page was not written: ")
    assert "agentlearn runs page 01jd0000000000000000000000" in note


@pytest.mark.slow
def test_a_learn_run_writes_its_page_and_a_page_in_the_way_costs_nothing(tmp_path: Path) -> None:
    small = ("learn", "math", "--model", "sim:novice", "--limit", "4", "--epochs", "2", "--eval-rollouts", "1")
    with few_math_tasks():
        done = agentlearn_here(*small, cwd=tmp_path)
        (line,) = [one for one in done.stdout.splitlines() if one.startswith("  report ")]
        page = tmp_path / line.removeprefix("  report").strip()
        read = Read(page.read_text(encoding="utf-8"))
        read.assert_ours()
        assert "Simulated: " in statements(read)[1]
        assert "Epoch 2" in " ".join(read.inside["summary"])
        command = next(text for text in read.inside["code"] if text.startswith("agentlearn learn "))
        again = json.loads(agentlearn_here(*shlex.split(command)[1:], "--json", cwd=tmp_path).stdout)
        assert Path(again["page"]).name == f"{again['run']}.html"
        (tmp_path / "else").mkdir()
        (tmp_path / "else" / "reports").write_text("in the way")
        blocked = agentlearn_here(*small, "--store", "else", "--json", cwd=tmp_path)
        assert json.loads(blocked.stdout)["page"] is None
        assert "the report page was not written: " in blocked.stderr
        pilot = json.loads(agentlearn_here(*small, "--pilot", "2", "--json", cwd=tmp_path).stdout)
        assert "because this was a pilot" in (tmp_path / pilot["page"]).read_text(encoding="utf-8")
        from_store = (*small[:4], "--from-store", "--labels", "none", "--json")
        stored = json.loads(agentlearn_here(*from_store, cwd=tmp_path).stdout)
        assert "rollouts of other runs" in (tmp_path / stored["page"]).read_text(encoding="utf-8")
