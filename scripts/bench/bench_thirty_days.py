"""Thirty days of an application that learns from its traffic, with a person who decides once a day.

Everything is **simulated**: users, feedback, the model that answers, the model that writes lessons, the person, and the
days, which have no clock. Each day the application answers, feedback comes for a part of the answers, up to three days
late and wrong once in ten, and one pass of the loop learns from it. The person starts what waits as a canary on half of
the episodes, also, by mistake, a lesson that does harm. On day 15 the depot moves, and the lessons of before help less.
Two tenants use the same application; the person approves their lessons at once.

    just bench thirty_days
    just bench thirty_days --seeds 1 --per-day 20
"""

import argparse
import asyncio
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import LibraryStore, Recorder, lessons, read_store
from agentlearn.library.history import MAIN
from agentlearn.library.tenants import tenant_store
from agentlearn.live.canary import canary_risk
from agentlearn.live.inbox import Inbox
from agentlearn.live.passes import keep_learning
from agentlearn.pages.learn_page import write_learn_page
from agentlearn.store import Selection
from scripts.bench.found import Found, Row, Target

LOOK_UP = "When a parcel is late, look up its number before you name a day."
DEPOT = "When a customer collects a parcel, name the new depot in Harbour Street."
REFUND = "When a customer is angry, promise a full refund in the first sentence."
SAID = {"the number was not looked up": LOOK_UP, "it named the old depot": DEPOT, "I wanted a refund": REFUND}
"""What the model that writes lessons makes of a comment."""
TENANTS = {"acme": "ACME-PRIORITY", "beta": "BETA-EXPRESS"}
"""A word that only this tenant's users and lessons have."""
SEEN = 0.3 * 0.8
"""What the harmful lesson takes from the mean of the feedback, of which one in ten is wrong."""
DAYS, DRIFT, MISTAKE, LATEST = 30, 15, 8, 3


@dataclass
class Desk:
    """One application with a store of its own: what its agents were shown, and what became of it."""

    store: Path
    tenant: str | None
    draw: random.Random
    per_day: int
    late: defaultdict[int, list[tuple[str, float, str]]] = field(default_factory=lambda: defaultdict(list))
    prompts: list[str] = field(default_factory=list[str])
    exposures: Counter[str] = field(default_factory=Counter[str])
    rewards: defaultdict[int, list[bool]] = field(default_factory=lambda: defaultdict(list))
    events: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])
    """Day, what happened, and the lesson."""
    allowed: set[str] = field(default_factory=set[str])
    """Lessons that the person let agents see, as a canary or approved."""
    seen: set[str] = field(default_factory=set[str])
    failed: int = 0
    shared: "Desk | None" = None
    """The desk whose lessons a tenant's agents read too."""

    @property
    def home(self) -> Path:
        return tenant_store(self.store, self.tenant)

    def lesson_of(self, comment: str) -> str:
        """The lesson that the simulated model writes after a comment; a tenant's names the tenant's word."""
        return f"{SAID[comment][:-1]}, and name {TENANTS[self.tenant]}." if self.tenant else SAID[comment]

    def chance(self, day: int, text: str) -> float:
        """The chance of a right answer."""
        helped = 0.4 * (LOOK_UP[:-1] in text) if day < DRIFT else 0.1 * (LOOK_UP[:-1] in text)
        return min(0.95, 0.35 + helped + 0.45 * (day >= DRIFT and DEPOT[:-1] in text) - 0.3 * (REFUND[:-1] in text))

    def answers(self, day: int) -> None:
        """Answer the questions of a day, and give the feedback that is due."""
        with Recorder("support", self.store, tenant=self.tenant) as recorder:
            for number in range(self.per_day):
                episode, kind = f"day {day} talk {number}", self.draw.randrange(12)
                shown = lessons("support", store=self.store, tenant=self.tenant, episode=episode, missing="empty",
                                canary=self.tenant is None and bool(self.allowed))  # fmt: skip
                advice = shown.for_query("parcel")
                self.prompts.append(advice.text)
                held = {lesson for lesson in self.every_lesson if lesson in advice.text}
                self.seen |= held
                self.exposures.update(held)
                right = self.draw.random() < self.chance(day, advice.text)
                self.rewards[day].append(right)
                word = f" {TENANTS[self.tenant]}" if self.tenant else ""
                chat = [
                    {"role": "user", "content": f"Where is my{word} parcel of kind {kind}?"},
                    {"role": "assistant", "content": "On its way." if right else "I do not know."},
                ]
                rollout = recorder.record_sync(chat, experiences=advice, episode=episode, user="u", model="simulated")
                if self.draw.random() < 0.6:
                    given = right != (self.draw.random() < 0.1)
                    comment = "" if given else self.comment(day, number)
                    due = day + self.draw.randrange(LATEST + 1)
                    self.late[due].append((rollout, float(given), comment))
            for rollout, reward, comment in self.late.pop(day, []):
                recorder.feedback_sync(rollout, reward=(reward, comment), by="user")

    def comment(self, day: int, number: int) -> str:
        """What a user says of a wrong answer."""
        if self.tenant is None and day == MISTAKE and number % 2:
            return "I wanted a refund"
        return "it named the old depot" if day >= DRIFT else "the number was not looked up"

    @property
    def every_lesson(self) -> set[str]:
        """What the simulated model may have written, for any desk."""
        added = {f"{one[:-1]}, and name {word}." for one in SAID.values() for word in TENANTS.values()}
        return {*SAID.values(), *added}

    def writes(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        """Answer as the model that writes lessons: from the comments that it reads."""
        text = "".join(str(getattr(part, "content", "")) for message in messages for part in message.parts)
        self.prompts.append(text)
        if "<trajectory" in text:
            said = next((words for words in SAID if words in text), "it answered")
            return ModelResponse(parts=[TextPart(json.dumps({"steps": [{"text": said, "used": []}]}))])
        rests = {"rests_on": ["P1"]} if "<proposals" in text else {}
        if rests:
            new = [lesson for lesson in self.every_lesson if lesson in text.partition("<proposals")[2]]
        else:
            known = sorted(SAID, key=text.count, reverse=True)
            new = [self.lesson_of(words) for words in known if words in text and self.lesson_of(words) not in text][:1]
        proposals = [{"op": "add", "lesson": lesson, **rests} for lesson in sorted(new)]
        return ModelResponse(parts=[TextPart(json.dumps({"proposals": proposals}))])

    def learns(self, day: int) -> None:
        """One pass of the loop."""
        model = FunctionModel(self.writes, model_name="simulated")
        done = asyncio.run(keep_learning("support", model=model, store=self.store, tenant=self.tenant, passes=1))
        self.failed += done.outcome == "failed"
        if done.canary.startswith(("promote", "roll_back")):
            self.events.append((day, done.canary.partition(":")[0], self.running))
        if done.run is not None and done.outcome == "learned":
            write_learn_page(self.home, done.run)

    running: str = ""
    """The lesson of the latest canary."""
    promised: int | None = None
    """Episodes until the harmful canary is found with 90 % probability, said when it was started, for both versions."""

    @property
    def most_read(self) -> float | None:
        """Episodes that read the harmful canary until then, with those of the days in which feedback is on its way."""
        return None if self.promised is None else self.promised / 2 + LATEST * self.per_day / 2

    def decides(self, day: int) -> None:
        """What the simulated person does: a canary for the newest version with a new lesson; a tenant's is approved.

        What is not new, or was rolled back, is put off.
        """
        inbox = Inbox(self.home / "libraries", self.home, who="the person")
        history = inbox.libraries.history("support")
        for item in inbox.items():
            words = {lesson.lesson for lesson in item.lessons}
            back = {lesson for _, what, lesson in self.events if what == "roll_back"}
            old = words <= self.allowed or bool(words & back)
            if old or (self.tenant is None and history.exists and history.canary is not None):
                if old:
                    inbox.later(item)
                continue
            self.events.append((day, "proposed", " ".join(sorted(words))))
            if self.tenant is not None or not history.exists:
                inbox.approve(item)
                self.events.append((day, "approved", " ".join(sorted(words))))
            else:
                with read_store(self.home) as reader:
                    version = reader.library(str(item.version))
                if REFUND in words:
                    self.promised = canary_risk(
                        inbox.libraries, self.home, "support", share=0.5, effect=SEEN, margin=0.02
                    ).found_after[1]
                history.start_canary(version, share=0.5, margin=0.02, who="the person", feedback_days=0)
                self.running = " ".join(sorted(words))
                self.events.append((day, "canary", self.running))
            self.allowed |= words

    def unapproved(self) -> int:
        """Changes of the library's current version that neither the person nor the rule for a canary made."""
        allowed = self.allowed | (self.shared.allowed if self.shared else set())
        changes = LibraryStore(self.home / "libraries").history("support").changes
        moved = [one for one in changes if one.branch == MAIN and one.kind not in {"canary", "end_canary", "promote"}]
        return sum(one.who != "the person" for one in moved) + len(self.seen - allowed)

    def texts(self) -> Iterator[str]:
        """Everything that this desk showed a model, and every file and record of its store."""
        yield from self.prompts
        for file in self.home.rglob("*"):
            inside = self.tenant is not None or "tenants" not in file.relative_to(self.home).parts
            if file.is_file() and inside:
                yield file.read_bytes().decode(errors="replace")
        with read_store(self.home) as reader:
            rows = reader.selected(Selection(domain="support"))
            yield from (str(one.trajectory) + one.messages.decode() for one in reader.whole([row.id for row in rows]))
            yield from (task.problem for task in reader.tasks(sorted({row.task for row in rows})).values())


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--per-day", type=int, default=50, help="conversations of the application a day")


def measure(chosen: argparse.Namespace) -> Found:
    """Return what happened in thirty days, for each seed."""
    rows, failures, over = list[Row](), list[str](), 0
    for seed in range(chosen.seeds):
        with TemporaryDirectory() as folder:
            desks = thirty_days(Path(folder), seed, chosen.per_day)
            rows.append(Row(name=f"seed {seed}", figures=figures_of(desks)))
            print(rows[-1], file=sys.stderr, flush=True)
            failures += [f"seed {seed}: {one}" for one in wrong_in(desks)]
            over += desks[0].exposures[REFUND] > (desks[0].most_read or 0.0)
    targets = (
        Target(what="wrong: unapproved, crossed or failed", figure=len(failures), bound="at_most", limit=0),
        Target(what="seeds with more harm than promised with 90 %", figure=over, bound="at_most", limit=1),
    )
    return Found(rows=tuple(rows), targets=targets, failures=tuple(failures), notes=("everything is simulated",))


def thirty_days(folder: Path, seed: int, per_day: int) -> list[Desk]:
    """Run the days of the application and of the two tenants."""
    desks = [Desk(folder, None, random.Random(seed), per_day)]
    desks += [
        Desk(folder, tenant, random.Random(f"{seed} {tenant}"), per_day // 8, shared=desks[0]) for tenant in TENANTS
    ]
    for day in range(1, DAYS + 1):
        for desk in desks:
            desk.answers(day)
            desk.learns(day)
            desk.decides(day)
        print(seed, day, desks[0].events[-1:], file=sys.stderr, flush=True)
    return desks


def figures_of(desks: list[Desk]) -> dict[str, float | None]:
    """Days of the events of the application, and the share of right answers before and after them."""
    events = {(what, lesson): day for day, what, lesson in reversed(desks[0].events)}
    days = {
        "look_up_in_use_day": events.get(("approved", LOOK_UP)) or events.get(("promote", LOOK_UP)),
        "harmful_canary_day": events.get(("canary", REFUND)),
        "harmful_rolled_back_day": events.get(("roll_back", REFUND)),
        "depot_canary_day": events.get(("canary", DEPOT)),
        "depot_promoted_day": events.get(("promote", DEPOT)),
    }
    parts = {"days_2_to_7": range(2, 8), "days_15_to_17": range(15, 18), "days_28_to_30": range(28, 31)}
    right = {
        f"right_{name}": fmean(one for day in part for one in desks[0].rewards[day]) for name, part in parts.items()
    }
    read = {"read_harmful": desks[0].exposures[REFUND], "promised_with_90_percent": desks[0].most_read}
    return {**days, **read, **right}


def wrong_in(desks: list[Desk]) -> Iterator[str]:
    """What must not have happened."""
    for desk in desks:
        name = desk.tenant or "the application"
        if desk.unapproved():
            yield f"{name} showed or published {desk.unapproved()} things that nobody approved"
        if desk.failed:
            yield f"{desk.failed} passes of {name} failed"
        text = "\n".join(desk.texts())
        for other, word in TENANTS.items():
            if (word in text) != (desk.tenant == other):
                yield f"{word} of {other} is {'in' if word in text else 'missing from'} what {name} has"
    if LibraryStore(desks[0].home / "libraries").load("support").by_id and any(
        one.lesson == REFUND for one in LibraryStore(desks[0].home / "libraries").load("support").experiences
    ):
        yield "the harmful lesson is in use at the end"
