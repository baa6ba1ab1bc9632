"""What happens in the company on thirty days, through the doors of the product: gateway, live, inbox, canary, forget.

Each step can be killed and done again. Which steps are done is noted in a file beside the store.
"""

import asyncio
import json
import resource
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentlearn import Library, LibraryStore, Recorder, library_of, read_store
from agentlearn.errors import AgentlearnError, ConfigError, LibraryError
from agentlearn.library.history import History
from agentlearn.library.history.canary import Canary, canaries
from agentlearn.library.tenants import tenant_store
from agentlearn.live.canary import step_canary
from agentlearn.live.forgetting import forget
from agentlearn.live.gateway.admission import GatewaySettings
from agentlearn.live.gateway.gateway import Gateway
from agentlearn.live.inbox import Inbox
from agentlearn.live.passes import keep_learning
from agentlearn.live.waiting import Item
from agentlearn.text import clock
from agentlearn.text.files import write_whole
from agentlearn.types.ids import LibraryVersion
from scripts.bench.thirty_days.company import (
    DAYS,
    ERASED_USER,
    ERASURE,
    FULL_DISK,
    HOUSE,
    MARGIN,
    POLITE,
    SHARE,
    SHARED,
    Company,
    Said,
    Talk,
    Tenant,
    drawn,
    wanted,
)
from scripts.bench.thirty_days.models import Service, answer, model_of

NAME = "support"
BEGAN = datetime(2026, 3, 2, tzinfo=UTC)
_TOGETHER = 24
"""Requests that are under way at the same time."""
_LONGEST = 10
"""Days after which an undecided canary gives way."""
_WORTH = 10
"""Points of reward: the least gain for which a canary is kept while others wait."""
_EVERY = 3
"""Days from one pass of `live` to the next one. It also steps the canary."""
_FULL = range(10, 12)
"""The hours of day 23 in which no file can grow."""
_ENDS = ("recorded", "unrecorded")
"""What the gateway counts of each conversation that it answered, sooner or later."""


def at(days: float) -> datetime:
    """The time of the simulated clock, in days since the beginning."""
    return BEGAN + timedelta(days=days)


@contextmanager
def time_is(days: float) -> Generator[None]:
    """Let it be this time in the block."""
    with clock.clock(lambda: at(days)):
        yield


class Office:
    """The company at work. folder: holds the shared store, and what is done."""

    def __init__(self, company: Company, folder: Path) -> None:
        self.company, self.store = company, folder / "store"
        self.service = Service(company)
        self._file = folder / "done.json"
        self._done: dict[str, Any] = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._answered = 0
        """Conversations that this process asked and that were answered."""
        self._due = defaultdict[int, list[Said]](list)
        """Feedback by the day on which it is given."""

    def work(self) -> None:
        """Do everything that is not done yet, until the last day has ended."""
        with time_is(0):
            for tenant in self.company.tenants:
                self._open(tenant)
        asyncio.run(self._days())

    @property
    def gave_up(self) -> Mapping[str, Any]:
        """What was noted on the way: refused requests, failed passes, and prompts with another tenant's word."""
        return self._done

    def libraries(self, tenant: Tenant) -> LibraryStore:
        """The libraries of a tenant."""
        return LibraryStore(self.home(tenant) / "libraries")

    def home(self, tenant: Tenant) -> Path:
        """The store of a tenant."""
        return tenant_store(self.store, tenant.name)

    def _open(self, tenant: Tenant) -> None:
        """Publish the house's lesson, and state the scale of the tenant's rewards."""
        if not self.libraries(tenant).history(NAME).exists:
            lessons = library_of([f"{HOUSE[:-1]} for {tenant.word}."])
            self.libraries(tenant).publish(NAME, lessons, kind="add", who="the house")
        with Recorder(NAME, self.store, tenant=tenant.name, scale=tenant.scale) as recorder:
            recorder.feedback_sync(episode="none", reward=tenant.scale[1])

    async def _days(self) -> None:
        async with self.service.serving() as upstream:
            settings = GatewaySettings(
                upstream=upstream, libraries=(NAME,), name=NAME, store=self.store, tokens=self.company.tokens
            )
            self.gateway = Gateway(settings)
            first = next((day for day in range(DAYS) if not self._is_done(f"traffic {day}")), DAYS)
            for tenant in self.company.tenants:
                self._remember(tenant, first)
            for day in range(DAYS):
                await self._day(day)
            await self.gateway.aclose()

    async def _day(self, day: int) -> None:
        if day in SHARED and not self._is_done(f"shared {day}"):
            with time_is(day):
                libraries = LibraryStore(self.store / "libraries")
                lessons = [lesson for since, lesson in SHARED.items() if since <= day]
                libraries.publish(NAME, library_of(lessons), kind="add", who="the house")
            self._note(f"shared {day}")
        if not self._is_done(f"traffic {day}"):
            await self._traffic(day)
            self._note(f"traffic {day}")
        for tenant in self.company.tenants:
            if not self._is_done(key := f"evening {day} {tenant.name}"):
                with time_is(day + 0.875 + tenant.number / 10_000):
                    await self._evening(day, tenant)
                self._note(key)

    # Traffic.

    def _remember(self, tenant: Tenant, day: int) -> None:
        """Read which conversations of this day are recorded, and what users will say about those of the days before."""
        self._recorded = getattr(self, "_recorded", set[str]())
        if day == 0 and not self.home(tenant).joinpath("journal.sqlite").exists():
            return
        for one, kinds in episodes_of(self.home(tenant), self.libraries(tenant), tenant):
            if one.day == day:
                self._recorded.add(f"{tenant.name} {one.episode}")
            if one.day >= day - 4:
                self._expect(one, kinds)

    def _expect(self, talk: Talk, kinds: frozenset[str]) -> None:
        if (said := talk.feedback(answer(talk, kinds))) is not None:
            self._due[said.day].append(said)

    async def _traffic(self, day: int) -> None:
        """One day of conversations and of feedback, hour by hour."""
        talks = [talk for tenant in self.company.tenants for talk in tenant.talks(day)]
        for hour in range(24):
            with _full_disk(day == FULL_DISK and hour in _FULL):
                now = [talk for talk in talks if int(talk.second // 3600) == hour]
                await self._together(self._asks(one) for one in now if self._key(one) not in self._recorded)
                if day == FULL_DISK:
                    await self._written()
                if day == FULL_DISK and hour == _FULL.start:
                    await self._failing_pass(day)
            due = [one for one in self._due[day] if int(one.due % 1 * 24) == hour]
            if day == FULL_DISK and hour in _FULL:  # users who see an error try again later
                later = day + (_FULL.stop + 0.5) / 24
                self._due[day] += [Said(one.talk, one.reward, one.comment, later) for one in due]
                continue
            erased = day >= ERASURE
            await self._together(self._says(one) for one in due if not (erased and one.talk.user == ERASED_USER))
        self._due.pop(day, None)

    async def _together(self, calls: Iterable[Any]) -> None:
        free = asyncio.Semaphore(_TOGETHER)

        async def one(call: Any) -> None:
            async with free:
                await call

        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(one(call))

    async def _asks(self, talk: Talk) -> None:
        """One conversation. Its feedback is given when it is due."""
        named = f"{talk.tenant.name}/{talk.day}/{talk.number}"
        messages = [{"role": "user", "content": talk.question}]
        body = {"model": model_of(talk.day), "messages": messages, "user": named}
        headers = {"x-agentlearn-episode": talk.episode, "x-agentlearn-user": talk.user}
        with time_is(talk.day + talk.second / 86_400):
            status, reply = await self._send("/v1/chat/completions", body, talk.tenant, headers)
        if status != 200:
            self._count(f"conversations answered with {status}")
            return
        self._answered += 1
        if not (talk.day == FULL_DISK and int(talk.second // 3600) in _FULL):  # what was not recorded takes none
            text = reply["choices"][0]["message"]["content"]
            said = talk.feedback(text)
            if said is not None:
                self._due[said.day].append(said)

    async def _written(self) -> None:
        """Wait until each conversation is on disk or lost, so that chance does not decide what a full disk loses."""
        while sum(count for (what, _), count in self.gateway.counts.items() if what in _ENDS) < self._answered:
            await asyncio.sleep(0.01)

    async def _says(self, said: Said) -> None:
        """Feedback on one conversation."""
        talk, tags = said.talk, {"by": said.talk.user}
        body: dict[str, Any] = {"metric_name": "reward", "value": float(said.reward), "episode_id": talk.episode}
        with time_is(said.due):
            status, _ = await self._send("/v1/feedback", {**body, "tags": tags}, talk.tenant, {})
            if said.comment:
                told = {**body, "metric_name": "comment", "value": said.comment, "tags": tags}
                await self._send("/v1/feedback", told, talk.tenant, {})
        if status != 200:
            self._count(f"feedback answered with {status}")

    async def _send(
        self, path: str, body: Mapping[str, Any], tenant: Tenant, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        """Post to the gateway as a web server would, without a socket. Returns the status and the reply."""
        content, parts, status = json.dumps(body).encode(), list[bytes](), 0
        given = {"host": "localhost", "content-type": "application/json", "content-length": str(len(content))}
        given |= {"x-agentlearn-token": tenant.token, **headers}
        received = iter([{"type": "http.request", "body": content, "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in received:
                return message
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))

        raw = [(name.encode(), value.encode()) for name, value in given.items()]
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"headers": raw, "client": ("127.0.0.1", 1), "http_version": "1.1", "scheme": "http"}
        await self.gateway(scope, receive, send)
        return status, json.loads(b"".join(parts))

    def _key(self, talk: Talk) -> str:
        return f"{talk.tenant.name} {talk.episode}"

    # Evenings.

    async def _evening(self, day: int, tenant: Tenant) -> None:
        """Erase who asked for it; learn; and let the reviewers decide."""
        if day == ERASURE:
            self._erase(tenant)
        history = self.libraries(tenant).history(NAME)
        if (day + tenant.number) % _EVERY == 0:
            await self._learn(tenant)
            self._review(day, tenant)
        elif day == DAYS - 1 and history.canary is not None:  # the last word on what still runs
            step_canary(self.libraries(tenant), self.home(tenant), NAME, who="the nightly job")

    async def _learn(self, tenant: Tenant) -> None:
        done = await keep_learning(
            NAME, model=self.service.writes_lessons(tenant), store=self.store, tenant=tenant.name, passes=1
        )
        if done.outcome == "failed":
            self._count(f"passes that failed: {done.code}: {done.words}")

    async def _failing_pass(self, day: int) -> None:
        """A pass on a full disk: it fails with words, and breaks nothing."""
        tenant = self.company.tenants[0]
        with time_is(day + 10.5 / 24), suppress(AgentlearnError, OSError):
            model = self.service.writes_lessons(tenant)
            await keep_learning(NAME, model=model, store=self.store, tenant=tenant.name, passes=1)

    def _erase(self, tenant: Tenant) -> None:
        try:
            forget(self.home(tenant), user=ERASED_USER, lessons="park")
        except ConfigError:  # it was done before this was killed, or she never came
            return

    def _review(self, day: int, tenant: Tenant) -> None:
        """Ana tries on half of the conversations what she does not put off; Ben rejects some of it. One looks first.

        Lessons are tried one at a time, for one that helps can hide one that harms. A canary gives way to a lesson that
        was never tried when its interval excludes a gain worth having, and after ten days about which nothing is shown.
        """
        libraries, store = self.libraries(tenant), self.home(tenant)
        ana, ben = (Inbox(libraries.directory, store, who=who) for who in ("ana", "ben"))
        history, wanted_items = libraries.history(NAME), list[tuple[int, bool, str, str, Item]]()
        tried, back = self._tried(history)
        back |= {one.lesson for one in libraries.load(NAME).experiences}
        for item in sorted(ana.items(), key=lambda one: one.id):
            words = "\n".join(one.lesson for one in item.lessons)
            verdict = wanted(words, self.company.seed, day)
            if item.kind == "rollback":
                ana.approve(item, note="the evidence says so")
            elif verdict == "ben rejects":
                with suppress(LibraryError):  # Ana has decided meanwhile
                    ben.reject(item, "we do not want it")
            elif item.kind in {"version", "lesson"} and verdict == "ana tries":
                new = [one for one in item.lessons if one.change != "remove" and one.lesson not in back]
                wanted_items += [(tried[one.lesson], POLITE in one.lesson, item.id, one.id, item) for one in new]
            else:
                ana.later(item)
        canary, line = history.canary, sorted(wanted_items, key=lambda one: one[:4])
        if canary is not None and line and not line[0][0] and (words := self._gives_way(tenant, canary)):
            history.end_canary(canary, who="ana", note=words)
        elif canary is not None and canary.since < at(day) and self._ben_stops(day, tenant):
            history.end_canary(canary, who="ben", note="I do not like it")
        asked = {"who": "ana", "feedback_days": tenant.feedback_days}
        for *_, lesson, item in line if history.canary is None else ():
            with suppress(LibraryError):  # it no longer applies
                tries = ana.candidate(item, lesson=lesson if item.kind == "version" else "")
                history.start_canary(tries, share=SHARE, margin=MARGIN, **asked)
                break

    def _gives_way(self, tenant: Tenant, canary: Canary) -> str:
        """Why a canary ends when others wait; empty if it goes on."""
        if (clock.now() - canary.since).days >= _LONGEST:
            return f"nothing is shown after {_LONGEST} days, and others wait"
        high = step_canary(self.libraries(tenant), self.home(tenant), NAME, dry_run=True).figures.high
        return f"it gains less than {_WORTH} points, and others wait" if high < _WORTH else ""

    def _ben_stops(self, day: int, tenant: Tenant) -> bool:
        return drawn(self.company.seed, tenant.number, day, "ben stops") < 0.03

    def _tried(self, history: History) -> tuple[Counter[str], set[str]]:
        """How often lessons were tried, by their words, and those that the rule rolled back."""
        tried, back = Counter[str](), set[str]()
        for one in canaries(history.changes):
            before = history.stored(one.baseline).by_id
            words = "\n".join(made.lesson for made in history.stored(one.version).experiences if made.id not in before)
            tried[words] += 1
            if one.ended is not None and one.ended.kind == "end_canary" and one.ended.figures:
                back.add(words)
        return tried, back

    # What is done.

    def _is_done(self, key: str) -> bool:
        return key in self._done.get("steps", ())

    def _note(self, key: str) -> None:
        self._done["steps"] = [*self._done.get("steps", ()), key]
        self._done["crossed"] = dict(self.service.crossed)
        write_whole(self._file, json.dumps(self._done).encode(), private=True)

    def _count(self, what: str) -> None:
        self._done[what] = self._done.get(what, 0) + 1


def episodes_of(store: Path, libraries: LibraryStore, tenant: Tenant) -> Iterator[tuple[Talk, frozenset[str]]]:
    """The recorded conversations of a tenant, in order of time, with the kinds of lessons that each was shown."""
    kinds = kinds_of_versions(libraries, tenant)
    with read_store(store) as reader:
        for one in reader.served_episodes([*kinds], 0):
            _, day, _, number = one.episode.split()
            yield Talk(tenant, int(day), int(number)), kinds[one.library]


def kinds_of_versions(libraries: LibraryStore, tenant: Tenant) -> dict[LibraryVersion, frozenset[str]]:
    """The kinds of lessons of each version of a tenant's library."""
    found = dict[LibraryVersion, frozenset[str]]()
    for version in libraries.history(NAME).versions():
        library = libraries.load(f"{NAME}@{version}", stored=True)
        found[version] = tenant.kinds(_words(library))
    return found


def _words(library: Library) -> str:
    return "\n".join(one.lesson for one in library.experiences)


@contextmanager
def _full_disk(full: bool) -> Generator[None]:
    """In the block no file of this process can grow, if it is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if full:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
