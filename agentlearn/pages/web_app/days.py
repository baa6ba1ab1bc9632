"""The page of thirty days: what was tried, promoted and rolled back, on which day and by whom, and what waits."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, timedelta

from agentlearn.errors import ConfigError, LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.history import Change
from agentlearn.library.history.change_log import ChangeKind
from agentlearn.library.store import things_waiting
from agentlearn.library.tenants import tenants_of
from agentlearn.pages.figure import Tone, count_words
from agentlearn.pages.lesson_origins import share_words
from agentlearn.pages.markup import clipped
from agentlearn.pages.table import KeyFigures, Paragraph, Table, TableCell, box, keys, sheet
from agentlearn.pages.web_app.lessons import waiting_in
from agentlearn.pages.web_app.page import Page, View, field_of
from agentlearn.text import clock

DAYS = 30
SHOWN = 100
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
    table = sheet("Changes, newest first", "What, Library, When, *By, Why", rows[first : first + SHOWN])
    body = (asked, _sums(places), _by_day(view, places, days), table, view.pager(table.rows, len(rows), size=SHOWN))
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
