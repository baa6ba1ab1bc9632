"""What the forms of the web app change, and the pages as files."""

import json
import re
from pathlib import Path

import pytest

from agentlearn.cli.app import run
from agentlearn.library import LibraryStore
from agentlearn.store import read_store
from agentlearn.view.routes import ROUTES
from tests.support.markup import Read
from tests.support.viewed import HELD, LEARN, LESSONS, Recorded, recorded, viewing


@pytest.fixture
def of(tmp_path: Path) -> Recorded:
    return recorded(tmp_path)


def sent(of: Recorded, page: str, act: str, **fields: str) -> str:
    """Send the form of a page that does `act`, with some fields filled in, and return the text of the answer."""
    with viewing(of.store) as (site, client):
        html = client.get(f"{site.base}{page}").text
        forms = [one for one in re.findall(r"<form.*?</form>", html, re.DOTALL) if f'name="act" value="{act}"' in one]
        wanted = next(one for one in forms if all(value in one for value in fields.get("among", "").split()))
        given = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', wanted))
        names = set(re.findall(r'name="(\w+)"', wanted))
        chosen = {name: value for name, value in fields.items() if name != "among"}
        assert chosen.keys() <= names
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
    assert "Approved. The library math" in sent(of, "/waiting", "approve", among="math@")


def test_a_held_lesson_of_a_library_is_approved_in_words_of_ones_own(of: Recorded) -> None:
    (held,) = [one.experience for one in LibraryStore(of.store / "libraries").load("team").withheld]
    words = "Read the question three times."
    assert "Edited. The library team" in sent(of, "/waiting", "edit-waiting", among=held.id, words=words)
    assert words in shown(of, "team")


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
