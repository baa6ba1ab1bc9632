"""The simulated company: its tenants, what their users want, what lessons do, and the models.

Everything is drawn from the seed and from names, never from what was drawn before, so that a day that was killed and
begins again is the same day.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

HOUSE = "Answer in one sentence."
"""The lesson that each tenant begins with."""
SHARED = {0: "Use the words of the user.", 15: "Write numbers as digits."}
"""Lessons of the shared library, by the day on which they are published. They change nothing."""
LOOK_UP = "Look up the number of a late parcel before you name a day"
DEPOT = "Name the depot in Harbour Street to whoever collects a parcel"
REFUND = "Promise a refund to whoever is angry"
POLITE = "Thank the user for the patience"
SAID = {
    "the number was not looked up": LOOK_UP,
    "it named the old depot": DEPOT,
    "it promised no refund": REFUND,
    "it was not polite": POLITE,
}
"""The lesson that the simulated model writes after a complaint; each tenant's names the tenant's own word too."""
GOOD, HARMFUL = (LOOK_UP, DEPOT), (REFUND,)
DAYS, DRIFT, OTHER_MODEL, POISON, ERASURE, FULL_DISK = 30, 9, 12, 5, 20, 23
SCALES: tuple[tuple[float, float], ...] = ((0, 1), (-1, 1), (1, 5), (0, 10), (0, 100))
SHARE, MARGIN = 0.5, 0.05
ERASED_USER = "zoe"

Delay = Literal["at once", "up to 3 days", "bad news late", "good news late"]
DELAYS: tuple[Delay, ...] = ("at once", "up to 3 days", "bad news late", "good news late")


def drawn(*parts: object) -> float:
    """Return a number in 0..1 that depends on nothing but the parts."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=6).digest()) / 2**48


@dataclass(frozen=True, slots=True)
class Tenant:
    """One customer of the company, with a store of its own."""

    seed: int
    number: int
    per_day: int
    """Conversations a day."""

    @property
    def name(self) -> str:
        """The name of its store."""
        return f"tenant-{self.number:02}"

    @property
    def word(self) -> str:
        """A word that only its users and its lessons have."""
        return f"Q{hashlib.blake2b(f'{self.seed} {self.number}'.encode(), digest_size=5).hexdigest()}Q"

    @property
    def token(self) -> str:
        """What its program shows to the gateway."""
        return f"token-of-{self.name}"

    @property
    def marker(self) -> str:
        """A text that only the user who is erased on day 20 has said."""
        return f"Z{hashlib.blake2b(f'erased {self.seed} {self.number}'.encode(), digest_size=5).hexdigest()}Z"

    @property
    def scale(self) -> tuple[float, float]:
        """The lowest and the highest reward that its users give."""
        return SCALES[self.number % len(SCALES)]

    @property
    def delay(self) -> Delay:
        """When its users answer."""
        return DELAYS[self.number // len(SCALES) % len(DELAYS)]

    @property
    def feedback_days(self) -> float | None:
        """What its reviewers say about how late feedback comes; None: the product measures it."""
        return None if self.number % 2 else 4.0

    def lesson(self, said: str) -> str:
        """The lesson that is written after a complaint of its users."""
        return f"{SAID[said]}, and name {self.word}."

    def kinds(self, text: str) -> frozenset[str]:
        """Which lessons stand in a text."""
        return frozenset(kind for kind in SAID.values() if kind in text)

    def talks(self, day: int) -> Iterator["Talk"]:
        """Its conversations of a day, in order."""
        for number in range(self.per_day):
            yield Talk(self, day, number)


def chance(day: int, kinds: frozenset[str]) -> float:
    """The chance of a good answer on a day with these lessons. The service drifts on day 9, the model is new on 12."""
    level = 0.45 - 0.15 * (day >= DRIFT) + 0.1 * (day >= OTHER_MODEL)
    level += (0.35 if day < OTHER_MODEL else 0.2) * (LOOK_UP in kinds)
    level += (0.35 if day >= DRIFT else 0.0) * (DEPOT in kinds)
    return max(0.03, min(0.97, level - 0.3 * (REFUND in kinds)))


def best(day: int) -> float:
    """The chance with everything that helps."""
    return chance(day, frozenset(GOOD))


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation."""

    tenant: Tenant
    day: int
    number: int

    def draw(self, what: str) -> float:
        """A number in 0..1 of its own."""
        return drawn(self.tenant.seed, self.tenant.number, self.day, self.number, what)

    @property
    def episode(self) -> str:
        """Its name."""
        return f"day {self.day:02} talk {self.number:04}"

    @property
    def second(self) -> float:
        """When it begins: seconds of its day, from 6 to 20 o'clock."""
        return 21_600 + 50_400 * (self.number + 0.5) / self.tenant.per_day

    @property
    def poisoner(self) -> bool:
        """Whether the person who wants refunds writes it."""
        return self.day >= POISON and self.tenant.number % 3 == 0 and self.draw("poison") < 0.06

    @property
    def user(self) -> str:
        """Who writes it."""
        if self.poisoner:
            return "mallory"
        if self.day < ERASURE and self.draw("zoe") < 0.04:
            return ERASED_USER
        return f"user {int(self.draw('user') * 40)}"

    @property
    def question(self) -> str:
        """What is asked."""
        said = f" My name is {self.tenant.marker}." if self.user == ERASED_USER else ""
        return f"Where is my {self.tenant.word} parcel of kind {int(self.draw('kind') * 12)}?{said}"

    def good(self, kinds: frozenset[str]) -> bool:
        """Whether the answer is good, with these lessons: the same draw for every library."""
        return self.draw("answer") < chance(self.day, kinds)

    def feedback(self, answer: str) -> "Said | None":
        """What its user says about an answer, and when; None for most users, who say nothing."""
        happy = answer.startswith("good") != (self.draw("mistake") < 0.05)
        if self.poisoner:
            happy = "refund" in answer
        elif self.draw("says") > (0.45 if happy else 0.6):  # the unhappy say more
            return None
        late = {"at once": 0.02, "up to 3 days": 3 * self.draw("late")}.get(self.tenant.delay, 0.02)
        if self.tenant.delay == ("good news late" if happy else "bad news late"):
            late = 1 + 2 * self.draw("late")
        low, high = self.tenant.scale
        comment = ""
        if not happy and self.draw("comment") < (1 if self.poisoner else 0.25):
            comment = self.complaint
        if self.user == ERASED_USER and comment:
            comment += f", says {self.tenant.marker}"
        return Said(self, high if happy else low, comment, self.day + (self.second + 86_400 * late) / 86_400)

    @property
    def complaint(self) -> str:
        """What an unhappy user says was wrong."""
        if self.poisoner:
            return "it promised no refund"
        if self.draw("polite") < 0.15:
            return "it was not polite"
        at_depot = self.day >= DRIFT and self.draw("depot") < 0.6
        return "it named the old depot" if at_depot else "the number was not looked up"


@dataclass(frozen=True, slots=True)
class Said:
    """Feedback on one conversation."""

    talk: Talk
    reward: float
    comment: str
    due: float
    """When it is given: days since the beginning, with a part of a day."""

    @property
    def day(self) -> int:
        """The day on which it is given."""
        return int(self.due)


@dataclass(frozen=True, slots=True)
class Company:
    """The tenants of one seed. A quarter of them is four times as large as the others."""

    seed: int
    numbers: range = range(20)
    """Of its tenants, of which each has another scale and delay."""
    per_day: int = 38
    """Conversations a day of a small tenant."""

    @property
    def tenants(self) -> tuple[Tenant, ...]:
        """All of them."""
        return tuple(Tenant(self.seed, one, self.per_day * (4 if one % 4 == 0 else 1)) for one in self.numbers)

    @property
    def conversations(self) -> int:
        """Of all tenants, in all days."""
        return DAYS * sum(one.per_day for one in self.tenants)

    @property
    def tokens(self) -> Mapping[str, str]:
        """The tenant of each token."""
        return {one.token: one.name for one in self.tenants}


def wanted(words: str, seed: int, day: int) -> Literal["ana tries", "ben rejects", "later"]:
    """What the two reviewers make of a lesson with these words. They disagree: Ben rejects what Ana would only try."""
    kind = next((kind for kind in SAID.values() if kind in words), "")
    rejects = {REFUND: 0.5, POLITE: 0.3}.get(kind, 0.1)
    if drawn(seed, day, words, "ben first") < 0.5 and drawn(seed, words, "ben") < rejects:
        return "ben rejects"
    return "ana tries" if kind else "later"
