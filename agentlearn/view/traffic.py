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


_PLACES = {
    "messages": "in conversations",
    "reasons": "in reasons and answers",
    "tasks": "in tasks",
    "lessons": "in lessons",
}
_QUERIES = {"messages": PageQuery.SEARCH_STEPS, "reasons": PageQuery.SEARCH_REASONS, "tasks": PageQuery.SEARCH_TASKS}


def search_page(view: View) -> Page:
    """Where a text stands: in conversations, in reasons and answers, in tasks, in lessons."""
    text, where = view.query.get("q", "")[:_LONGEST].strip(), view.choice("where", tuple(_PLACES))
    first, run = view.number("first"), view.query.get("run", "")[:64]
    fields = (
        element(
            "label", "Text", element("input", type="search", name="q", value=text, maxlength=_LONGEST, id="search")
        ),
        choices("where", "Where", list(_PLACES.items()), where),
        field_of("run", "Only in this run", value=run, limit=64),
    )
    body: list[Body | None] = [view.question(*fields, submit="Search")]
    if not text:
        return Page("Search", (*body, Paragraph(text="Capital and small letters are the same.", quiet=True)))
    wanted = view.reader.run(run).run if run else None
    needle = text.lower()
    if where == "lessons":
        rows = view.reader.rows(PageQuery.SEARCH_LESSONS, needle, FOUND + 1, first)
        known = {one["id"] for one in rows}
        shown = view.libraries.shown_lessons().values() if not first else ()
        rows += [
            {"id": one.id, "snippet": one.lesson}
            for one in shown
            if needle in one.lesson.lower() and one.id not in known
        ]
    else:
        written = json.dumps(needle, ensure_ascii=False)[1:-1] if where == "messages" else needle
        rows = view.reader.rows(_QUERIES[where], written, wanted, FOUND + 1, first)
    items = [_hit(view, where, one, needle) for one in rows[:FOUND]]
    body.append(
        element("p", f"{count_words(len(items), 'place') if items else 'No place'} {_PLACES[where]}.", role="status")
    )
    body.append(element("ul", *items, class_="hits"))
    total = first + len(items) + (len(rows) > FOUND)
    body.append(view.pager(items, total, size=FOUND))
    return Page(f"Search: {clipped(text, 60)}", tuple(body))


def _hit(view: View, where: str, one: dict[str, Any], needle: str) -> Html:
    snippet = one["snippet"].replace("\\n", " ").replace('\\"', '"')
    if where == "lessons":
        return element("li", link(snippet, view.to("lesson", one["id"])))
    if where == "tasks":
        address = view.to("run", one["run"], "grid", phase=one["phase"], task=one["id"])
        return element("li", link(snippet, address))
    reward = "undecided" if one["reward"] is None else f"reward {one['reward']:g}"
    name = link(f"{one['phase']}, {reward}, run {one['run'][:12]}", view.to("rollout", one["id"]))
    pieces = re.split(f"({re.escape(needle)})", snippet, maxsplit=1, flags=re.IGNORECASE)
    quoted = (element("b" if n == 1 else "bdi", piece) for n, piece in enumerate(pieces))
    return element("li", name, element("p", *quoted, class_="quote"))
