"""Pages about live traffic, with thumbs and a place for the right answer; and the search."""

import json
import re
from collections.abc import Sequence
from typing import Any

from agentlearn.library.history.three_way import HeldLesson
from agentlearn.live.forgetting import forget
from agentlearn.pages.figure import count, count_words
from agentlearn.pages.markup import Html, clipped, element
from agentlearn.pages.records import erasure_lines
from agentlearn.pages.rollouts import reward_words
from agentlearn.pages.table import Paragraph, Statement, box, number_cells, sheet
from agentlearn.pages.web_app.conversation import thumbs
from agentlearn.pages.web_app.page import Body, Page, View, answer_block, choices, field_of, link
from agentlearn.store.codec import time_of
from agentlearn.store.erasure_intent import ErasureReceipt
from agentlearn.store.page_queries import PageQuery

TALKS, FOUND = 30, 40
"""Attempts of live traffic, and places of a text, on one page."""
_LONGEST = 200
"""Characters of a text that is searched."""


def live_page(view: View) -> Page:
    """The recorders of this store."""
    rows = tuple(
        (
            box(one["name"], href=view.to("live", one["name"])),
            *number_cells(count, one["rollouts"], one["episodes"], view.reader.live_without_reward(one["name"])),
            box(f"{time_of(one['at']):%Y-%m-%d %H:%M}"),
        )
        for one in view.reader.rows(PageQuery.RECORDERS)
    )
    empty = Paragraph(text="Nothing was recorded here. An application records what its agents do with Recorder.")
    table = sheet("Recorders", "Recorder, #Answers, #Episodes, #Without a reward, Latest", rows) if rows else empty
    return Page("Live traffic", (table,))


def talks_page(view: View, name: str) -> Page:
    """What a recorder took, newest first, with forms for feedback."""
    first, episode = view.number("first"), view.query.get("episode", "")[:400]
    wanted = view.choice("show", ("all", "open", "wrong"))
    rows = view.reader.rows(PageQuery.LIVE_PAGE, name, episode or None, wanted, TALKS, first)
    options = [("all", "all"), ("open", "no reward"), ("wrong", "wrong")]
    body: list[Body | None] = [view.question(choices("show", "Answers", options, wanted), episode=episode)]
    body += [_talk(view, name, one) for one in rows] or [Paragraph(text="There is no such answer.")]
    body.append(view.pager(rows, rows[0]["total"] if rows else 0, size=TALKS))
    if view.links.token:
        person = field_of("user", "A person, as the application named them", limit=400)
        body.append(view.question(person, submit="What would be erased", to="erase"))
    title = f"Live traffic of {name}{f', episode {clipped(episode, 60)}' if episode else ''}"
    return Page(title, tuple(body), (("Live traffic", view.to("live")),))


def erase_page(view: View) -> Page:
    """What erasing a person would remove, by a trial that removes nothing, and the form to do it."""
    user, said = view.query.get("user", ""), list[str]()

    def look(found: ErasureReceipt, held: Sequence[HeldLesson]) -> None:
        said.extend(erasure_lines(found, held))

    receipt = forget(view.reader.directory, user=user, lessons=look, dry_run=True)
    options = [("park", "park them"), ("keep", "keep them"), ("list", "list them and decide later")]
    lessons = choices("lessons", "Lessons that rest on it", options, "park") if receipt.lessons else None
    body = (
        Statement(text="This would be erased. It cannot be restored."),
        answer_block("\n".join(said), "said"),
        view.form("erase", lessons, submit="Erase it now", kind="bad", user=user, back="/live"),
        element("p", "An erasure does not reach:"),
        element("ul", *(element("li", element("bdi", one)) for one in receipt.unreached)),
    )
    return Page(f"Erase {clipped(user, 80)}", body, (("Live traffic", view.to("live")),))


def _talk(view: View, name: str, one: dict[str, Any]) -> Html:
    """One answer, folded to a line."""
    about = {"id": one["id"], "outcome": "ok", "reward": one["reward"], "code": "", "answer": "", "g": 0, "attempt": 0}
    question = one["problem"] or "(no question is stored)"
    at, user, episode = f"{time_of(one['at']):%m-%d %H:%M}", one["user_name"], one["episode"]
    erase = view.to("erase", user=user) if user and view.links.token else ""
    return element(
        "details",
        element(
            "summary",
            view.cell(about, linked=False),
            element("bdi", clipped(" ".join(question.split()), 120)),
            element("span", at, class_="aside"),
        ),
        element("p", "Episode ", link(episode, view.to("live", name, episode=episode))) if episode else None,
        answer_block(question, "asked"),
        answer_block(one["answer"] or "(no answer)", "said"),
        element("p", element("bdi", one["reason"]), class_="quiet") if one["reason"] else None,
        element("p", link("the whole conversation", view.to("rollout", one["id"]))),
        *thumbs(view, one["id"]),
        element("p", link(f"Erase what is stored of {clipped(user, 60)}", erase)) if erase else None,
        class_="talk",
    )


def search_page(view: View) -> Page:
    """Where a text stands: in lessons, in tasks, in reasons and answers, in conversations."""
    text, run = view.query.get("q", "")[:_LONGEST].strip(), view.query.get("run", "")[:64]
    first = view.number("first")
    words = element("input", type="search", name="q", value=text, maxlength=_LONGEST, id="search")
    asked = view.question(
        element("label", "Text", words), field_of("run", "Only in this run", value=run, limit=64), submit="Search"
    )
    if not text:
        note = "It looks in lessons, tasks, reasons, answers and conversations. Capital and small letters are the same."
        return Page("Search", (asked, Paragraph(text=note, quiet=True)))
    needle, wanted = text.lower(), view.reader.run(run).run if run else None
    written = json.dumps(needle, ensure_ascii=False)[1:-1]
    rows = view.reader.rows(PageQuery.SEARCH, needle, written, wanted, FOUND + 1, first)
    items = [_hit(view, one, needle) for one in rows[:FOUND]]
    if not first and wanted is None:  # and lessons that the store does not hold, such as imported ones
        fitting = {one.id: one for one in view.libraries.shown_lessons().values() if needle in one.lesson.lower()}
        stored = {one.id for one in view.reader.experiences([*fitting])}
        own = [one for one in fitting.values() if one.id not in stored]
        items[:0] = [_hit(view, {"kind": "lesson", "id": one.id, "snippet": one.lesson}, needle) for one in own]
    body = (
        asked,
        element("p", f"{count_words(len(items), 'place') if items else 'No place'}.", role="status"),
        element("ul", *items, class_="hits"),
        view.pager(rows[:FOUND], first + len(rows), size=FOUND),
    )
    return Page(f"Search: {clipped(text, 60)}", body)


def _hit(view: View, one: dict[str, Any], needle: str) -> Html:
    snippet = one["snippet"]
    if one["kind"] == "step":
        snippet = re.sub(r'\\(["\\/nt])', lambda found: {"n": " ", "t": " "}.get(found[1], found[1]), snippet)
    pieces = re.split(f"({re.escape(needle)})", snippet, maxsplit=1, flags=re.IGNORECASE)
    quote = element("p", *(element("b" if n == 1 else "bdi", piece) for n, piece in enumerate(pieces)), class_="quote")
    match one["kind"]:
        case "lesson":
            name = link("a lesson", view.to("lesson", one["id"]))
        case "task":
            name = link("a task", view.to("run", one["run"], "grid", phase=one["phase"], task=one["id"]))
        case _:
            words = f"an attempt, {one['phase']}, {reward_words(one['reward'])}, run {one['run'][:12]}"
            name = link(words, view.to("rollout", one["id"]))
    return element("li", name, quote)
