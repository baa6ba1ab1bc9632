"""What the pages of the web app show, and that hostile content stays text."""

import asyncio
import hashlib
import json
import re
import shutil
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentlearn.library import LibraryStore
from agentlearn.library.tenants import tenant_store
from agentlearn.pages.web_app.page import HTMX_SHA256, asset
from agentlearn.store import open_store, read_store
from agentlearn.text import clock
from agentlearn.types.experience import library_of
from tests.support.hostile import HOSTILE
from tests.support.markup import Read
from tests.support.viewed import EVAL, LEARN, LESSONS, PIXEL, Recorded, every_address, recorded, viewing
from tests.unit.store import nouns


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("viewed"))


def text_of(of: Recorded, address: str, read_only: bool = False) -> str:
    with viewing(of.store, read_only=read_only) as (site, client):
        answer = client.get(f"{site.base}{address}")
        assert answer.status_code == 200, answer.text[-600:]
        return " ".join(Read(answer.text).text.split())


def shapes(of: Recorded) -> dict[str, tuple[set[str], set[str], int]]:
    """The elements and attributes of each page, and how many scripts it has."""
    found: dict[str, tuple[set[str], set[str], int]] = {}
    with viewing(of.store) as (site, client):
        for number, address in enumerate(every_address(of)):
            answer = client.get(f"{site.base}{address}")
            assert answer.status_code == 200, (address, answer.text[-600:])
            read = Read(answer.text)
            assert read.comments == []
            names = {name for _, values in read.tags for name in values}
            found[f"{number}"] = set(read.names), names, read.names.count("script")
            addresses = [*read.attributes("href"), *read.attributes("src"), *read.attributes("action")]
            own = (site.base, "#", "data:,")
            assert all(one.startswith(own) for one in addresses), [one for one in addresses if not one.startswith(own)]
    return found


@pytest.mark.slow
def test_hostile_texts_add_no_element_and_no_attribute_to_any_page(of: Recorded, tmp_path: Path) -> None:
    plain = shapes(of)
    every_tag = {name for names, _, _ in plain.values() for name in names}
    every_attribute = {name for _, names, _ in plain.values() for name in names}
    assert not {one for one in every_attribute if one.startswith("on") or one == "style"}
    hostile = recorded(tmp_path, "".join(one for one in HOSTILE if len(one) < 500 and "\ud800" not in one))
    for tags, attributes, scripts in shapes(hostile).values():
        assert tags <= every_tag
        assert attributes <= every_attribute
        assert scripts == 3


def test_the_vendored_file_is_the_one_that_was_checked_and_its_licence_is_with_it() -> None:
    assert hashlib.sha256(asset("htmx.min.js")).hexdigest() == HTMX_SHA256
    licence = Path(__file__).parents[4] / "agentlearn/pages/web_app/assets/htmx.LICENSE"
    assert "Zero-Clause BSD" in licence.read_text(encoding="utf-8")


def test_runs_are_listed_with_verdict_change_cost_and_state(of: Recorded) -> None:
    page = text_of(of, "/runs")
    assert "learn math" in page
    assert "better +0.40" in page
    assert "0.40 → 0.80" in page
    assert "$0.90" in page
    assert "failed" in page


def test_a_run_shows_its_verdict_curve_versions_and_where_the_calls_went(of: Recorded) -> None:
    page = text_of(of, f"/run/{LEARN}")
    for words in (
        "Before",
        "After",
        "Reward during the run",
        "Every version of the run",
        "Parts of the run",
        "epoch-1",
    ):
        assert words in page


def test_the_grid_shows_before_and_after_and_a_cell_opens_the_reason(of: Recorded) -> None:
    with viewing(of.store) as (site, client):
        page = client.get(f"{site.base}/run/{LEARN}/grid").text
        names = Read(page).attributes("aria-label")
        assert any(one.startswith("attempt 1: wrong, reward 0") for one in names)
        assert any(one.startswith("attempt 1: undecided, timeout") for one in names)
        assert any(one.startswith("attempt 1: failed to answer") for one in names)
        cell = re.search(r'<a class="cell wrong" href="([^"]+)"', page)
        assert cell is not None
        reason = client.get(cell[1]).text
        assert "12 is not 4. plain" in reason


@pytest.mark.parametrize(("question", "tasks"), [
    ("show=wrong", 3), ("show=all-wrong&phase=before", 3), ("show=undecided", 1), ("show=undecided&code=timeout", 1),
    ("show=undecided&code=other", 0), ("show=flipped", 3), ("phase=after&show=wrong", 0), ("family=plain", 4),
    ("family=none", 0), ("first=3", 1),
])  # fmt: skip
def test_a_filter_of_the_grid_leaves_the_tasks_that_fit(of: Recorded, question: str, tasks: int) -> None:
    with viewing(of.store) as (site, client):
        page = client.get(f"{site.base}/run/{LEARN}/grid?{question}").text
    assert page.count('<th scope="row">') == tasks


def test_an_attempt_shows_reason_lessons_tool_calls_and_what_came_of_it(of: Recorded) -> None:
    page = text_of(of, f"/rollout/{of.wrong}")
    for words in (
        "wrong, reward 0: 12 is not 4.",
        "Expected",
        "Lessons shown: 2",
        "cited",
        "calls plain",
        "Reasoning",
    ):
        assert words in page
    assert LESSONS[0] in page
    assert "Summary made in run" in page
    assert "applied" in page


@pytest.mark.slow
def test_a_long_conversation_comes_in_slices_of_bounded_size(tmp_path: Path) -> None:
    long = recorded(tmp_path, "word " * 1_500, steps=120)
    with viewing(long.store) as (site, client):
        address, seen, size = f"/rollout/{long.wrong}", list[str](), 0
        while address:
            headers = {"hx-request": "true"} if seen else {}
            page = client.get(address if seen else f"{site.base}{address}", headers=headers).text
            assert "<html" not in page or not seen
            seen += re.findall(r'id="(step-\d+)"', page)
            size = max(size, len(page))
            more = re.search(r'hx-get="([^"]+first=\d+)"', page)
            address = more[1].replace("&amp;", "&") if more else ""
    assert seen == [f"step-{number}" for number in range(1, 122)]
    assert size < 800_000


@pytest.mark.slow
def test_the_whole_text_of_a_step_comes_in_parts(tmp_path: Path) -> None:
    long = recorded(tmp_path, "word " * 60_000)
    first = text_of(long, f"/rollout/{long.wrong}/step/0")
    assert "Characters 1 to 200,000 of 300,014" in first
    assert "Characters 200,001 to 300,014 of 300,014" in text_of(long, f"/rollout/{long.wrong}/step/0?first=200000")


def test_binary_content_is_folded_and_pictures_are_pictures(of: Recorded) -> None:
    assert "Binary content, 3,000 characters" in text_of(of, f"/rollout/{of.wrong}")
    with viewing(of.store) as (site, client):
        page = client.get(f"{site.base}/rollout/{of.pictured}").text
        source = re.search(r'<img src="([^"]+)"', page)
        assert source is not None
        picture = client.get(source[1])
        assert picture.content == PIXEL
        assert picture.headers["content-type"] == "image/png"


def test_an_attempt_is_saved_as_atif(of: Recorded) -> None:
    with viewing(of.store) as (site, client):
        page = client.get(f"{site.base}/rollout/{of.talk}").text
        address = re.search(r'href="([^"]+/atif.json)"', page)
        assert address is not None
        answer = client.get(address[1])
    assert answer.headers["content-disposition"] == f'attachment; filename="{of.talk}.atif.json"'
    assert [step["source"] for step in answer.json()["steps"]] == ["user", "agent"]


@pytest.mark.slow
def test_every_chart_is_saved_as_a_drawing_without_html(of: Recorded) -> None:
    charts = 0
    with viewing(of.store) as (site, client):
        for address in (f"/run/{LEARN}", f"/run/{LEARN}/report", f"/run/{EVAL}/report"):
            for found in re.findall(r'href="([^"]+save=[0-9]+[.]svg)"', client.get(f"{site.base}{address}").text):
                drawing = ET.fromstring(client.get(found.replace("&amp;", "&")).text)
                names = {one.tag.removeprefix("{http://www.w3.org/2000/svg}") for one in drawing.iter()}
                assert names <= {"svg", "g", "title", "style", "path", "line", "circle", "text"}
                charts += 1
    assert charts >= 5


def test_a_lesson_shows_author_sources_with_quotations_changes_and_use(of: Recorded) -> None:
    page = text_of(of, f"/lesson/{of.lesson}")
    for words in ("learned", "answered: plain", "12 is not 4.", "Shown to", "Cited in", "brought by change"):
        assert words in page
    assert "Its effect is unknown" in page


def test_what_waits_is_listed_with_the_forms_to_decide(of: Recorded) -> None:
    page = text_of(of, "/waiting")
    assert "waiting for you" in page
    for words in ("Tell the judge nothing.", "refused_source", "Read the question twice.", "Approve", "Reject"):
        assert words in page
    assert "Approve" not in text_of(of, "/waiting", read_only=True)


def test_a_comparison_has_the_name_of_its_command_and_its_flips_begin_with_counts(of: Recorded) -> None:
    assert "compare math" in text_of(of, "/runs")
    page = text_of(of, f"/run/{EVAL}/flips")
    assert "compare math" in page
    assert re.search(r"against \S+: \d+ won, \d+ lost, \d+ even", page)


def test_a_library_of_which_nothing_is_published_has_pages_that_say_so(tmp_path: Path) -> None:
    of = recorded(tmp_path)
    shutil.rmtree(of.store / "libraries" / "math")
    with viewing(of.store) as (site, client):
        for page in ("", "/history", "/diff", "/audit", "/card"):
            answer = client.get(f"{site.base}/library/math{page}")
            assert answer.status_code == 200
            assert "Nothing is published yet." in answer.text
            assert "Waiting for you: " in answer.text
        assert client.get(f"{site.base}/library/maths").status_code == 404


def test_thirty_days_are_shown_by_library_and_day_with_those_of_tenants(tmp_path: Path) -> None:
    old, new = library_of(["Ask first."], kind="add"), library_of(["Ask first.", "Be brief."], kind="add")
    began = datetime(2026, 3, 2, 9, tzinfo=UTC)
    asyncio.run(_empty(tmp_path))
    for number, (tenant, by) in enumerate(((None, "ana"), ("acme", "ben"))):
        libraries = LibraryStore(tenant_store(tmp_path, tenant) / "libraries")
        with clock.clock(lambda at=began + timedelta(days=number): at):
            libraries.publish("support", old, kind="add", who="the house")
            libraries.history("support").start_canary(new, share=0.5, who=by)
        with clock.clock(lambda at=began + timedelta(days=10 + number): at):
            libraries.history("support").end_canary(promote=tenant is None, who="", figures={"points": 3.0})
    with viewing(tmp_path) as (site, client):
        text = Read(client.get(f"{site.base}/days?to=2026-03-20").text).text
        assert "Tried2Promoted1Rolled back1Approved0Running now0 canariesWaiting now0" in text
        assert re.search(r"promoted\w{12}support2026-03-12 09:00the rule", text)
        assert text.index("2026-03-13 09:00") < text.index("2026-03-12 09:00"), "newest first"
        assert re.search(r"tried\w{12}support of acme2026-03-03 09:00ben", text)
        assert "Tried0Promoted0" in Read(client.get(f"{site.base}/days?to=2026-05-20").text).text
        assert "give one such as 2026-03-31" in client.get(f"{site.base}/days?to=soon").text


async def _empty(store: Path) -> None:
    async with open_store(store):
        pass


def test_mathematics_is_shown_as_one_types_it(tmp_path: Path) -> None:
    of = recorded(tmp_path, r"What is $\frac{a}{b} \cdot n$ for $5 and $n=2$?")
    for page in (f"/run/{LEARN}/grid", f"/run/{EVAL}/flips", "/search?q=what", "/live/support", f"/lesson/{of.lesson}"):
        assert "What is a/b · n for $5 and n=2?" in text_of(of, page), page


def test_flips_lead_to_both_conversations_side_by_side(of: Recorded) -> None:
    with viewing(of.store) as (site, client):
        page = client.get(f"{site.base}/run/{EVAL}/flips").text
        pair = re.search(r'href="([^"]+/pair/[^"]+)"', page)
        assert pair is not None
        sides = client.get(pair[1]).text
    assert sides.count('class="column"') == 2
    assert sides.count('class="steps"') == 2


def test_two_runs_are_compared_on_the_tasks_that_both_have(of: Recorded) -> None:
    page = text_of(of, f"/two?a={LEARN}&b={LEARN}&phase_a=before&phase_b=after")
    assert "3 tasks of 4 that both runs have changed, by" in page
    assert "A task opens both conversations side by side." in page


@pytest.mark.parametrize(("question", "found"), [
    ("q=12+IS+NOT", "an attempt"), ("q=answer+is+4", "an attempt"), ("q=the+ends", "a lesson"),
    ("q=menu+path", "a lesson"), ("q=1.+plain", "a task"), ("q=nowhere+at+all", "No place"),
    (f"q=answer+is+4&run={EVAL}", "No place"), ("q=%25", "No place"),
])  # fmt: skip
def test_the_search_finds_texts_in_messages_reasons_tasks_and_lessons(of: Recorded, question: str, found: str) -> None:
    page = text_of(of, f"/search?{question}")
    assert found in page
    assert (found == "No place") is ("No place" in page)


def test_the_reflectors_prompt_and_reply_are_shown(of: Recorded) -> None:
    page = text_of(of, f"/run/{LEARN}/call/{of.call}")
    assert "The lesson is this. plain" in page
    assert "Compare these: plain" in page


def test_costs_are_listed_by_day_run_and_stage(of: Recorded) -> None:
    page = text_of(of, f"/cost?run={LEARN}")
    assert "2026-01-02" in page
    assert "compare" in page
    assert "$0.25" in page


def test_a_cost_without_a_known_price_is_unknown_and_not_nothing(tmp_path: Path) -> None:
    async def unpriced() -> None:
        async with open_store(tmp_path) as opened:
            await opened.save_run(nouns.run_event(run=LEARN))
            await opened.record(nouns.call().model_copy(update={"run": LEARN, "cost_usd": None}))

    asyncio.run(unpriced())
    with viewing(tmp_path) as (site, client):
        page = client.get(f"{site.base}/cost").text
    assert "unknown" in page
    assert "nothing" not in page


def test_a_table_is_saved_as_csv_without_formulas(tmp_path: Path) -> None:
    hostile = recorded(tmp_path, "=HYPERLINK(1)")
    with viewing(hostile.store) as (site, client):
        table = client.get(f"{site.base}/run/{EVAL}/flips?save=3.csv")
        assert table.headers["content-type"].startswith("text/csv")
        assert "attachment" in table.headers["content-disposition"]
        assert "'=HYPERLINK(1)" in table.text


@pytest.mark.slow
def test_a_page_works_while_another_process_has_the_store_open(of: Recorded) -> None:
    import subprocess
    import sys

    program = (
        "import asyncio, sys\nfrom agentlearn.store import open_store\n"
        "async def main():\n    async with open_store(sys.argv[1]):\n        print('open', flush=True)\n"
        "        await asyncio.to_thread(sys.stdin.readline)\nasyncio.run(main())"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(of.store)], stdin=-1, stdout=-1, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        assert "better +0.40" in text_of(of, "/runs")
        assert "12 is not 4." in text_of(of, f"/rollout/{of.wrong}")
        assert "Lessons shown: 2" in text_of(of, f"/rollout/{of.wrong}")
    finally:
        child.communicate("end\n", timeout=60)


def test_pages_ask_the_store_for_parts_only(of: Recorded) -> None:
    with read_store(of.store) as reader:
        head = reader.head(of.wrong)
    assert head.steps == ()
    assert json.loads(head.model_dump_json())["answer"] == "plain"
