"""Pages about lessons in use: live traffic and its search, the changes of thirty days, and what a channel offers.

Live traffic has thumbs and a place for the right answer. The page of thirty days says what was tried, promoted and
rolled back, on which day and by whom, and what waits. The page of a channel says what its index offers, who signed it,
and what shows its worth; all of it is foreign text.
"""

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError, LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.history import Change
from agentlearn.library.history.change_log import ChangeKind
from agentlearn.library.history.three_way import HeldLesson
from agentlearn.library.store import things_waiting
from agentlearn.library.tenants import tenants_of
from agentlearn.live.forgetting import forget
from agentlearn.pages.figure import Html, Tone, clipped, count, count_words, element, fold, joined
from agentlearn.pages.lesson_origins import share_words
from agentlearn.pages.records import erasure_lines
from agentlearn.pages.rollouts import reward_words
from agentlearn.pages.table import (
    CodeBlock,
    KeyFigures,
    Note,
    Paragraph,
    Statement,
    Table,
    TableCell,
    box,
    keys,
    number_cells,
    sheet,
)
from agentlearn.pages.web_app.conversation import thumbs
from agentlearn.pages.web_app.lessons import waiting_in
from agentlearn.pages.web_app.page import Body, Page, View, answer_block, choices, field_of, link
from agentlearn.store.codec import time_of
from agentlearn.store.erasure_intent import ErasureReceipt
from agentlearn.store.page_queries import PageQuery
from agentlearn.text import clock
from agentlearn.types.rendering import headline

if TYPE_CHECKING:
    from agentlearn.library.sharing.channels import Offer

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


DAYS = 30
_CHANGES = 100
"""Changes on one part of the page."""
_WORDS: Mapping[ChangeKind, str] = {
    "canary": "tried",
    "promote": "promoted",
    "end_canary": "rolled back",
    "rollback": "rolled back",
    "approve": "approved",
    "reject": "rejected",
    "park": "parked",
}
_TONES: dict[str, Tone] = {"promoted": "good", "approved": "good", "rolled back": "bad", "tried": "open"}
_WAITS = "waits"
_SIGNS = {"rolled back": "↓", "promoted": "↑", "tried": "?", "approved": "+", _WAITS: "!"}
"""The signs of what happened to a library on a day; anything else is a dot."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A library of this store or of a tenant."""

    tenant: str
    libraries: LibraryStore
    name: str
    changes: tuple[Change, ...]
    """Of the days that are shown, oldest first."""
    canary: str
    """The canary that runs now, in words; empty without one."""

    @property
    def words(self) -> str:
        return f"{self.name} of {self.tenant}" if self.tenant else self.name


def days_page(view: View) -> Page:
    """Thirty days of all libraries of the store and of its tenants, up to a day that can be chosen."""
    last = _last_day(view)
    days = [last - timedelta(days=before) for before in range(DAYS)]
    places = list(_places(view, days))
    asked = view.question(field_of("to", "Last day", value=f"{last:%Y-%m-%d}", limit=10))
    if not places:
        return Page("Thirty days", (asked, Paragraph(text="No library of this store has changed yet.")))
    rows, first = list(_events(view, places)), view.number("first")
    table = sheet("Changes, newest first", "What, Library, When, *By, Why", rows[first : first + _CHANGES])
    body = (asked, _sums(places), _by_day(view, places, days), table, view.pager(table.rows, len(rows), size=_CHANGES))
    return Page("Thirty days", body)


def _last_day(view: View) -> date:
    given = view.query.get("to", "")
    try:
        return date.fromisoformat(given) if given else clock.now().date()
    except ValueError:
        raise ConfigError(f"the last day is {given[:40]!r}; give one such as 2026-03-31") from None


def _places(view: View, days: list[date]) -> Iterator[_Place]:
    """Every library with its changes on these days. One that cannot be read is left to its own page."""
    directory = view.libraries.directory.parent
    stores = {"": view.libraries, **{one: LibraryStore(folder / "libraries") for one, folder in tenants_of(directory)}}
    for tenant, libraries in stores.items():
        for name in libraries.names():
            with suppress(LibraryError, OSError):
                history = libraries.history(name)
                changes = tuple(one for one in history.changes if days[-1] <= _day(one) <= days[0])
                known, canary = history.canary, ""
                if known is not None:
                    canary = f"{known.version[:12]} on {share_words(known.share)} since {known.since:%m-%d}"
                yield _Place(tenant, libraries, name, changes, canary)


def _what(change: Change) -> str:
    """What a change did, in a word."""
    return _WORDS.get(change.kind, "changed")


def _sums(places: list[_Place]) -> KeyFigures:
    done = [_what(change) for place in places for change in place.changes]
    folders = {place.libraries.directory for place in places}
    waiting = sum(map(things_waiting, folders))
    counted = [
        (word.capitalize(), f"{done.count(word):,}") for word in ("tried", "promoted", "rolled back", "approved")
    ]
    running = count_words(sum(bool(place.canary) for place in places), "canary")
    return keys("In these days", *counted, ("Running now", running), ("Waiting now", f"{waiting:,}"))


def _by_day(view: View, places: list[_Place], days: list[date]) -> Table:
    """One row per library, one column per day, the last day first."""
    rows, waiting = list[tuple[TableCell, ...]](), waiting_in(view).items
    for place in places:
        of_day = defaultdict[date, set[str]](set)
        since = [] if place.tenant else [one.since for one in waiting if one.library == place.name]
        for one in since:
            of_day[one.astimezone(UTC).date()].add(_WAITS)
        waits = things_waiting(place.libraries.directory) if place.tenant else len(since)
        for change in place.changes:
            of_day[_day(change)].add(_what(change))
        state = "; ".join(filter(None, (place.canary, f"{waits:,} waiting" if waits else "")))
        rows.append((_name(view, place, state), *(_day_cell(of_day[day]) for day in days)))
    names = ", ".join(f"{day:%b %d}" if day == days[0] or day.day == 1 else f"{day:%d}" for day in days)
    note = "↑ promoted, ↓ rolled back, ? tried on a share, + approved, ! waits for you, · anything else."
    return sheet("By library and day", f"Library, {names}", rows, note)


def _day_cell(done: Collection[str]) -> TableCell:
    signs = "".join(sign for word, sign in _SIGNS.items() if word in done)
    return box(signs or "·" * bool(done))


def _name(view: View, place: _Place, sub: str = "") -> TableCell:
    """The name of a library; that of a tenant has its pages in a view of the tenant's own store."""
    return box(place.words, sub, "" if place.tenant else view.to("library", place.name, "history"))


def _events(view: View, places: list[_Place]) -> Iterator[tuple[TableCell, ...]]:
    """All changes of all libraries, newest first."""
    every = sorted(
        ((one.at, place.words, one, place) for place in places for one in place.changes), key=lambda one: one[:2]
    )
    for at, _, change, place in reversed(every):
        word = _what(change)
        by = change.who or ("the rule" if change.figures else "a program")
        kind = change.kind.replace("_", " ") if word in {"changed", "rolled back"} else ""
        what = box(word, f"{kind} {change.version[:12]}".strip(), tone=_TONES.get(word, "plain"))
        yield what, _name(view, place), box(f"{at:%Y-%m-%d %H:%M}"), box(by), box(clipped(change.why, 300))


def _day(change: Change) -> date:
    return change.at.astimezone(UTC).date()


_OFFERS = 20
"""Offers on one page."""
_LESSONS, _CHARACTERS, _CELL = 100, 600, 160
"""Lessons of an offer, and characters of a text and of a cell."""
_FOREIGN = (
    "Names, descriptions, lessons and results on this page were written by others. Prices and licences are information:"
    " nothing is sold or paid here. A signature says who, not how good. What you fetch waits until you approve it."
)
_SIGNED = "The index is signed by a key that you trust: nobody else added, changed or left out an entry."
_UNSIGNED = "No signature was checked. Name the keys that you trust with --key."


def offers_page(view: View) -> Page:
    """What the channel that was named on the command line offers. Raises ConfigError where none was named."""
    if (channel := view.channel) is None:
        why = "this server shows no channel; name the folder of one: agentlearn view FOLDER"
        raise ConfigError(why, code="unknown_channel")
    offers, total = channel.offers(datetime.now(UTC), view.number("first"), _OFFERS)
    note = "" if offers else "The index lists no library."
    names = "Library, #Lessons, *Signature, Evidence, Model, *Domain, *Licence, Price"
    body = (
        Note(title="Foreign text", text=_FOREIGN, kind="warning"),
        Paragraph(text=_SIGNED if channel.keys else _UNSIGNED),
        sheet("Offers", names, map(_row, offers), note),
        view.pager(offers, total, size=_OFFERS),
        *(_details(one, str(channel.folder)) for one in offers),
    )
    return Page("Libraries that others offer", body)


def _row(offer: "Offer") -> tuple[TableCell, ...]:
    release, lessons = offer.release, () if offer.package is None else offer.package.lessons
    signature = box("verified", tone="good") if offer.signers else box("not checked", tone="open")
    if offer.refusal is not None:
        signature = box("not verified" if release else "refused", offer.refusal.code, tone="bad")
    said = (release.model, release.domain, release.licence, release.price) if release else ("",) * 4
    name = box(clipped(offer.name, 80), clipped(offer.description, _CELL))
    number, evidence = box(f"{len(lessons):,}", value=len(lessons)), next(_evidence(offer))
    return (name, number, signature, *(box(clipped(one, _CELL)) for one in (evidence, *said)))


def _evidence(offer: "Offer") -> Iterator[str]:
    """What the comparison of a package says about its version; that there is none, or that it cannot be read."""
    package = offer.package
    if package is None or "comparison.json" not in package.files:
        yield "none"
        return
    try:
        found: Any = json.loads(package.files["comparison.json"])
        arms = {str(one["arm"]) for one in found["arms"] if one["library"] == package.library.version}
        said = [str(one["sentence"]) for one in found["contrasts"] if arms & {str(one["arm"]), str(one["baseline"])}]
        mark = "Simulated: " if found.get("simulated") else ""
        yield from [f"{mark}{one}" for one in said if one] or ["a comparison without a result about this version"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        yield "a comparison that cannot be read"


def _details(offer: "Offer", channel: str) -> Html:
    """All that is known about an offer, folded under its name."""
    release, held = offer.release, () if offer.package is None else offer.package.lessons
    facts, parts = {"Description": clipped(offer.description, 2_000)}, list[Html]()
    if offer.refusal is not None:
        facts["Not verified"] = clipped(str(offer.refusal), _CHARACTERS)
    if release is not None and offer.package is not None:
        facts |= {
            "Version": release.version,
            "Issued": f"{release.issued:%Y-%m-%d %H:%M}",
            "Expires": "never" if release.expires is None else f"{release.expires:%Y-%m-%d}",
            "Signed by keys that you trust": ", ".join(one[:16] for one in offer.signers) or "none",
            "Content id": offer.package.address,
            "Root": release.root,
            "Evidence": clipped(" ".join(_evidence(offer)), 2_000),
        }
    if release is not None and offer.refusal is None:
        fetch = [
            "agentlearn",
            "library",
            "fetch",
            channel,
            offer.name,
            *(["--key", "KEY.pub"] if offer.signers else []),
        ]
        parts.append(CodeBlock(text=shlex.join(fetch), label="To get it").html())
    items = [joined(element("dt", name), element("dd", element("bdi", said))) for name, said in facts.items()]
    listed = [element("li", element("bdi", clipped(headline(one.lesson), _CHARACTERS))) for one in held[:_LESSONS]]
    more = element("p", f"and {len(held) - _LESSONS:,} more") if len(held) > _LESSONS else None
    content = joined(element("dl", *items, class_="facts"), *parts, element("ul", *listed), more)
    return fold(clipped(offer.name, 80), content, aside=count_words(len(held), "lesson"))
