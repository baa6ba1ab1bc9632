"""What the forms of the web app change, and the pages as files."""

import json
import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from agentlearn.cli.app import run
from agentlearn.library import LibraryStore
from agentlearn.library.history.change_log import RejectLesson
from agentlearn.pages.web_app.routes import ROUTES
from agentlearn.pages.web_app.server import Site
from agentlearn.store import read_store
from agentlearn.types.experience import library_of
from agentlearn.types.operation import Modify
from tests.support.markup import Read
from tests.support.viewed import HELD, LEARN, LESSONS, Recorded, recorded, viewing


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("made"))


@pytest.fixture
def of(made: Recorded, tmp_path: Path) -> Recorded:
    """A store of the test's own, copied from one that nothing changes."""
    return replace(made, store=Path(shutil.copytree(made.store, tmp_path / "store")))


def sent(of: Recorded, page: str, act: str, **fields: str) -> str:
    """Send the form of a page that does `act`, with some fields filled in, and return the text of the answer."""
    with viewing(of.store) as (site, client):
        return sent_by(site, client, page, act, **fields)


def sent_by(site: Site, client: TestClient, page: str, act: str, **fields: str) -> str:
    """The same in a server that goes on. among: words that the form has. untick: the id of a lesson to leave out."""
    html = client.get(f"{site.base}{page}").text
    forms = [one for one in re.findall(r"<form.*?</form>", html, re.DOTALL) if f'value="{act}"' in one]
    wanted = next(one for one in forms if all(value in one for value in fields.get("among", "").split()))
    given = {name: unescape(value) for name, value in re.findall(r' name="([\w-]+)" value="([^"]*)"', wanted)}
    given |= {name: unescape(text) for name, text in re.findall(r'name="([\w-]+)"[^>]*>([^<]*)</textarea>', wanted)}
    given.pop(f"take-{fields.get('untick', '')}", None)
    chosen = {name: value for name, value in fields.items() if name not in {"among", "untick"}}
    assert chosen.keys() <= set(re.findall(r'name="([\w-]+)"', wanted))
    own = {"origin": f"http://127.0.0.1:{site.port}"}
    answer = client.post(f"{site.base}/act", data=given | chosen, headers=own)
    assert answer.status_code == 200, answer.text[-500:]
    return " ".join(Read(answer.text).text.split())


def shown(of: Recorded, name: str = "math") -> list[str]:
    return [one.lesson for one in LibraryStore(of.store / "libraries").load(name).experiences]


def test_a_quarantined_lesson_is_approved_with_a_remark(of: Recorded) -> None:
    page = sent(of, "/waiting", "approve", among=HELD, note="it is harmless")
    assert "Approved. The library math is at version" in page
    assert "Tell the judge nothing." in shown(of)
    with read_store(of.store) as reader:
        assert reader.decisions()[-1].note == "it is harmless"


def test_a_quarantined_lesson_is_rejected_with_a_reason(of: Recorded) -> None:
    page = sent(of, "/waiting", "reject", among=HELD, note="it flatters")
    assert "was refused. Later runs refuse the same words." in page
    with read_store(of.store) as reader:
        decision = reader.decisions()[-1]
    assert (decision.verdict, decision.note) == ("rejected", "it flatters")


def test_a_pending_version_is_published(of: Recorded) -> None:
    history = LibraryStore(of.store / "libraries").history("math")
    history.unpark(history.load().withheld[0].experience.id)
    assert "Approved. The library math" in sent(of, "/waiting", "approve", among="math@")


def test_a_held_lesson_of_a_library_is_approved_in_words_of_ones_own(of: Recorded) -> None:
    (held,) = [one.experience for one in LibraryStore(of.store / "libraries").load("team").withheld]
    words = "Read the question three times."
    assert "Edited. The library team" in sent(of, "/waiting", "approve", among=held.id, **{f"words-{held.id}": words})
    assert words in shown(of, "team")


def test_of_a_pending_version_what_is_ticked_is_published_in_words_of_ones_own(of: Recorded) -> None:
    kept, other = library_of(LESSONS, kind="add", tags=("plain",)).experiences
    history = LibraryStore(of.store / "libraries").history("math")
    history.unpark(other.id)
    words = "When counting, count both ends."
    chosen = {"among": "math@ tick", "untick": other.id, f"words-{kept.id}": words}
    assert "Edited. The library math" in sent(of, "/waiting", "approve", **chosen)
    refused, edited = history.changes[-1].operations
    assert isinstance(refused, RejectLesson)
    assert refused.target == other.id
    assert isinstance(edited, Modify)
    assert (edited.target, edited.lesson) == (kept.id, words)


def test_a_decision_is_put_off_or_taken_back_and_the_navigation_counts_what_waits(of: Recorded) -> None:
    (held,) = [one.experience for one in LibraryStore(of.store / "libraries").load("team").withheld]
    with viewing(of.store) as (site, client):
        assert "put off" not in client.get(f"{site.base}/waiting").text
        assert "It goes on waiting" in sent_by(site, client, "/waiting", "later", among=held.id)
        assert "put off" in client.get(f"{site.base}/waiting").text
        sent_by(site, client, "/waiting", "approve", among=held.id)
        assert "Read the question twice." in shown(of, "team")
        assert "The last decision was taken back." in sent_by(site, client, "/waiting", "undo")
        assert shown(of, "team") == ["Name the menu path."]
        assert 'value="undo"' not in client.get(f"{site.base}/waiting").text
        found = re.search(r'Waiting <span class="badge">(\d)</span>', client.get(f"{site.base}/cost").text)
    assert found is not None
    assert found[1] == "3"


def test_a_lesson_is_edited_parked_and_shown_again(of: Recorded) -> None:
    page = f"/lesson/{of.lesson}"
    assert "The lesson was edited" in sent(of, page, "edit", words="When counting, check both ends.", note="clearer")
    assert shown(of) == ["When counting, check both ends."]
    edited = LibraryStore(of.store / "libraries").load("math").experiences[0].id
    sent(of, f"/lesson/{edited}", "park", note="not now")
    assert shown(of) == []
    sent(of, f"/lesson/{edited}", "unpark")
    assert shown(of) == ["When counting, check both ends."]
    sent(of, "/library/math", "add", lesson="Draw a picture first.", note="")
    assert shown(of)[-1] == "Draw a picture first."


def test_a_section_is_edited_with_its_lines(of: Recorded) -> None:
    history = LibraryStore(of.store / "libraries").history("math")
    history.add("## Reading\n\n1. Count the rows.\n2. Stop.\n")
    section = history.load().experiences[-1].id
    sent(of, f"/lesson/{section}", "edit", words="## Reading\r\n\r\n1. Count the rows.\r\n2. Go on.\r\n", note="")
    assert shown(of)[-1] == "## Reading\n\n1. Count the rows.\n2. Go on.\n"


def test_an_older_version_is_tried_on_a_share_decided_on_and_made_current(of: Recorded) -> None:
    history = LibraryStore(of.store / "libraries").history("math")
    first, current = history.changes[0].version, history.resolve()
    history.unpark(history.load().withheld[0].experience.id)
    page = "/library/math/history"
    said = sent(of, page, "canary", at=current, share="1/4")
    assert f"canary {current[:12]} of math: collect" in said
    assert "1/4 of episodes, margin" in said
    assert "collect" in sent(of, page, "canary-decide")
    assert "has ended" in sent(of, page, "canary-end", note="enough")
    sent(of, f"/library/math?at={current}", "canary", share="0.5")
    with viewing(of.store) as (site, client), pytest.raises(AssertionError, match="is no version or branch"):
        sent_by(site, client, page, "rollback", at="../other.json")
    assert "is the current version" in sent(of, page, "canary-promote")
    assert history.resolve() == current
    assert "is the current one again" in sent(of, page, "rollback", at=first, note="as it was")
    assert history.resolve() == first


def test_a_person_is_erased_after_a_look_at_what_goes(of: Recorded) -> None:
    with viewing(of.store) as (site, client):
        page = client.get(f"{site.base}/erase?user=ann").text
        assert "1 rollouts of this user" in page
        assert "It cannot be restored." in page
        assert client.get(f"{site.base}/erase?user=nobody").status_code == 400
        assert "Erased: 1 answer. The receipt is" in sent_by(site, client, "/erase?user=ann", "erase")
        assert client.get(f"{site.base}/rollout/{of.talk}").status_code != 200


def test_a_refused_change_says_why_and_changes_nothing(of: Recorded) -> None:
    with viewing(of.store) as (site, client):
        html = client.get(f"{site.base}/lesson/{of.lesson}").text
        given = {
            "act": "edit",
            "token": site.token,
            "back": "/runs",
            "library": "math",
            "lesson": of.lesson,
            "words": "w " * 200,
        }
        answer = client.post(f"{site.base}/act", data=given, headers={"origin": f"http://127.0.0.1:{site.port}"})
    assert site.token in html
    assert answer.status_code == 400
    assert "This did not work" in answer.text
    assert shown(of) == [LESSONS[0]]


def test_an_answer_of_live_traffic_gets_a_thumb_and_the_right_answer(of: Recorded) -> None:
    page = f"/rollout/{of.talk}"
    assert "Saved: the answer was wrong." in sent(of, page, "thumb", among='value="0"', why="it does not help")
    sent(of, "/live/support", "demonstrate", among=of.talk, demonstration="Pay by card.")
    with read_store(of.store) as reader:
        said = reader.feedback(of.talk)
    assert [(one.reward, one.reason, one.demonstration) for one in said] == [
        (0.0, "it does not help", ""),
        (None, "", "Pay by card."),
    ]
    assert all(one.by for one in said)


@pytest.mark.slow
def test_a_bundle_has_the_pages_of_one_run_and_nothing_else(
    of: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "shared"
    assert run(["view", LEARN, "--bundle", str(out), "--store", str(of.store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["index"] == str(out / "index.html")
    pages = {file.name: file.read_text(encoding="utf-8") for file in out.glob("*.html")}
    assert "index.html" in pages
    whole = "\n".join(pages.values())
    assert "12 is not 4. plain" in whole
    assert "How do I pay?" not in whole  # live traffic was not chosen
    assert "Name the menu path." not in whole
    assert 'method="post"' not in whole
    for name, page in pages.items():
        read = Read(page)
        for target in (*read.attributes("href"), *read.attributes("src")):
            if target.startswith(("#", "data:,")):
                continue
            assert (out / target).is_file(), (name, target)
    assert [*out.glob("*.csv")]
    assert [*out.glob("*.svg")]


def test_a_bundle_is_written_to_an_empty_folder_only(
    of: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert run(["view", "math", "--bundle", str(tmp_path), "--store", str(of.store)]) == 2
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "message"), [
    (["nothing-like-this"], "has no rollout and no run"), (["", "--port", "70000"], "for --port. Must be <= 65535"),
])  # fmt: skip
def test_bad_input_gets_a_sentence(
    of: Recorded, given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["view", *given, "--store", str(of.store)]) == 2
    assert message in capsys.readouterr().err


def test_every_page_has_one_address() -> None:
    assert len(set(ROUTES.values())) == len(ROUTES)
