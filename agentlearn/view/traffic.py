"""Pages about live traffic, with thumbs and a place for the right answer; and the search."""

import json
import re
from typing import Any

from agentlearn.store.codec import time_of
from agentlearn.store.page_queries import PageQuery
from agentlearn.view.conversation import thumbs
from agentlearn.view.page import Body, Page, View, box, choices, field_of, link, sheet, text_block
from agentlearn.views.figure import count, count_words
from agentlearn.views.markup import Html, clipped, element
from agentlearn.views.table import Paragraph, number_cells

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
    options = [("all", "all"), ("open", "without a reward"), ("wrong", "wrong")]
    body: list[Body | None] = [view.question(choices("show", "Answers", options, wanted), episode=episode)]
    body += [_talk(view, name, one) for one in rows] or [Paragraph(text="There is no such answer.")]
    body.append(view.pager(rows, rows[0]["total"] if rows else 0, size=TALKS))
    title = f"Live traffic of {name}{f', episode {clipped(episode, 60)}' if episode else ''}"
    return Page(title, tuple(body), (("Live traffic", view.to("live")),))


def _talk(view: View, name: str, one: dict[str, Any]) -> Html:
    reward = one["reward"]
    about = {"id": one["id"], "outcome": "ok", "reward": reward, "code": "", "answer": "", "g": 0, "attempt": 0}
    episode = link(one["episode"], view.to("live", name, episode=one["episode"])) if one["episode"] else None
    return element(
        "article",
        element("p", view.cell(about), f" {time_of(one['at']):%Y-%m-%d %H:%M} ", episode, class_="who"),
        text_block(one["problem"] or "(no question is stored)", "asked"),
        text_block(one["answer"] or "(no answer)", "said"),
        element("p", element("bdi", one["reason"]), class_="quiet") if one["reason"] else None,
        element("p", link("the whole conversation", view.to("rollout", one["id"]))),
        *thumbs(view, one["id"]),
        class_="waits",
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
    snippet = one["snippet"].replace("\\n", " ").replace('\\"', '"')
    pieces = re.split(f"({re.escape(needle)})", snippet, maxsplit=1, flags=re.IGNORECASE)
    quote = element("p", *(element("b" if n == 1 else "bdi", piece) for n, piece in enumerate(pieces)), class_="quote")
    match one["kind"]:
        case "lesson":
            name = link("a lesson", view.to("lesson", one["id"]))
        case "task":
            name = link("a task", view.to("run", one["run"], "grid", phase=one["phase"], task=one["id"]))
        case _:
            reward = "undecided" if one["reward"] is None else f"reward {one['reward']:g}"
            words = f"an attempt, {one['phase']}, {reward}, run {one['run'][:12]}"
            name = link(words, view.to("rollout", one["id"]))
    return element("li", name, quote)
