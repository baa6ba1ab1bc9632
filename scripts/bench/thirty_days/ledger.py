"""What became of thirty days: figures that are read from the stores of the company when the last day is over."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from statistics import fmean

import duckdb

from agentlearn import LibraryStore, read_store
from agentlearn.library.history.canary import Canary, canaries
from agentlearn.types.ids import LibraryVersion
from agentlearn.types.value import Value
from scripts.bench.thirty_days.company import DAYS, HARMFUL, MARGIN, Tenant, best, chance
from scripts.bench.thirty_days.office import BEGAN, NAME, Office, kinds_of_versions

Curve = tuple[float, ...]
"""Chance of a good answer by day, mean over the conversations."""
_REACHED = 0.9


class Decision(Value):
    """A canary that the rule ended, or one that it had not ended by the last day."""

    tenant: str
    delay: str
    scale: str
    lessons: tuple[str, ...]
    outcome: str
    """promote, roll_back, stopped (by a person or a change), or open."""
    started: int
    """Day."""
    ended: int
    effect: float
    """The true difference in the chance of a good answer, over the conversations while it ran."""

    @property
    def wrong(self) -> bool:
        """Whether the rule's promise did not hold: rolled back and not worse, or promoted and worse by the margin."""
        if self.outcome == "roll_back":
            return self.effect >= 0
        return self.outcome == "promote" and self.effect <= -MARGIN


class TenantLedger(Value):
    """The thirty days of one tenant."""

    tenant: str
    conversations: int
    """Recorded and not erased."""
    harmful: float
    """Share of its conversations that read a harmful lesson beyond that lesson's canary."""
    harmful_in_canary: float
    ours: Curve
    nothing: Curve
    everything: Curve
    """Chances if each lesson that was proposed were read by all from the next day on."""
    best: Curve
    left: tuple[str, ...]
    """Where a text of the erased person, or a word of another tenant, stands at the end."""


class SeedLedger(Value):
    """The thirty days of one seed."""

    seed: int
    tenants: tuple[TenantLedger, ...]
    decisions: tuple[Decision, ...]
    crossed: int
    """Prompts with a word of another tenant."""
    refused: Mapping[str, int]
    """What the gateway and `live` could not do, by words, on days other than that of the full disk."""


def ledger_of(office: Office) -> SeedLedger:
    """Read what became of a company whose last day has ended."""
    tenants, decisions = list[TenantLedger](), list[Decision]()
    for tenant in office.company.tenants:
        one, made = _of_tenant(office, tenant)
        tenants.append(one)
        decisions += made
    noted = dict(office.gave_up)
    refused = {key: int(count) for key, count in noted.items() if key not in {"steps", "crossed"}}
    crossed = sum(noted.get("crossed", {}).values())
    return SeedLedger(
        seed=office.company.seed, tenants=tuple(tenants), decisions=tuple(decisions), crossed=crossed, refused=refused
    )


def _of_tenant(office: Office, tenant: Tenant) -> tuple[TenantLedger, list[Decision]]:
    libraries, store = office.libraries(tenant), office.home(tenant)
    kinds, known = kinds_of_versions(libraries, tenant), canaries(libraries.history(NAME).changes)
    by_day, harmful = defaultdict[int, list[float]](list), Counter[bool]()
    meanwhile = defaultdict[int, list[int]](list)
    """Days of the conversations during each canary, by its number."""
    with read_store(store) as reader:
        for one in reader.served_episodes([*kinds], 0):
            if not one.episode:
                continue
            day = int(one.episode.split()[1])
            by_day[day].append(chance(day, kinds[one.library]))
            began = datetime.fromtimestamp(one.at / 1e6, BEGAN.tzinfo)
            running = next((n for n, each in enumerate(known) if _runs(each, began)), None)
            if running is not None:
                meanwhile[running].append(day)
            if kinds[one.library] & {*HARMFUL}:
                harmful[running is not None and known[running].version == one.library] += 1
        proposed = {
            _day(row.at): tenant.kinds(str(getattr(ended.ended.proposal.operation, "lesson", "")))
            for row in reader.runs(limit=10_000)
            if row.kind == "learn"
            for ended in reader.proposals(row.run)
        }
    total = sum(map(len, by_day.values()))
    ledger = TenantLedger(
        tenant=tenant.name, conversations=total, harmful=harmful[False] / total,
        harmful_in_canary=harmful[True] / total,
        ours=tuple(fmean(by_day[day]) if by_day[day] else 0.0 for day in range(DAYS)),
        nothing=tuple(chance(day, frozenset()) for day in range(DAYS)),
        everything=tuple(_everything(proposed)), best=tuple(map(best, range(DAYS))), left=tuple(_left(office, tenant)),
    )  # fmt: skip
    made = [_decision(tenant, one, kinds, meanwhile[n]) for n, one in enumerate(known)]
    return ledger, made


def _runs(canary: Canary, at: datetime) -> bool:
    return canary.since <= at and (canary.ended is None or at <= canary.ended.at)


def _day(at: datetime) -> int:
    return (at - BEGAN).days


def _everything(proposed: Mapping[int, frozenset[str]]) -> Iterator[float]:
    """The chances by day if all that was proposed before it is read."""
    shown = frozenset[str]()
    for day in range(DAYS):
        yield chance(day, shown)
        shown |= proposed.get(day, frozenset())


def _decision(
    tenant: Tenant, canary: Canary, kinds: Mapping[LibraryVersion, frozenset[str]], days: list[int]
) -> Decision:
    ended, new, old = canary.ended, kinds[canary.version], kinds[canary.baseline]
    outcome = "open" if ended is None else "promote" if ended.kind == "promote" else "stopped"
    if ended is not None and ended.kind == "end_canary" and ended.figures:
        outcome = "roll_back"
    effects = [chance(day, new) - chance(day, old) for day in days]
    return Decision(
        tenant=tenant.name, delay=tenant.delay, scale="{:g} to {:g}".format(*tenant.scale),
        lessons=tuple(sorted(new - old)), outcome=outcome, started=_day(canary.since),
        ended=DAYS if ended is None else _day(ended.at), effect=round(fmean(effects), 3) if effects else 0.0,
    )  # fmt: skip


def _left(office: Office, tenant: Tenant) -> Iterator[str]:
    """Where a text stands that must not: in every byte of every file, and in every text of every table."""
    home, others = office.home(tenant), [one for one in office.company.tenants if one != tenant]
    wrong = {tenant.marker: "the erased person", **{one.word: one.name for one in others}}
    for file in sorted(path for path in home.rglob("*") if path.is_file()):
        content, where = file.read_bytes(), file.relative_to(home)
        yield from (f"{who} in {where}" for text, who in wrong.items() if text.encode() in content)
        if file.suffix == ".duckdb":  # which packs texts
            with duckdb.connect(str(file), read_only=True) as database:
                for (table,) in database.sql("SELECT table_name FROM duckdb_tables()").fetchall():
                    rows = "\n".join(map(str, database.sql(f'FROM "{table}"').fetchall()))
                    yield from (f"{who} in table {table}" for text, who in wrong.items() if text in rows)
    with suppress(StopIteration):
        libraries = LibraryStore(home / "libraries")
        shown = libraries.load(NAME)
        parked = libraries.history(NAME).state.parked
        yield from (f"a parked lesson in {NAME}" for one in shown.experiences if one.id in parked)


def days_until(curve: Curve, tenant: TenantLedger) -> int | None:
    """The first day from which a curve has 90 % of the gain that can be reached, on the mean of the days that are left.

    None where it has not by the last day.
    """
    for day in range(DAYS):
        gain, most = (sum(part[day:]) - sum(tenant.nothing[day:]) for part in (curve, tenant.best))
        now = curve[day] - tenant.nothing[day]
        if gain >= _REACHED * most and now >= _REACHED * (tenant.best[day] - tenant.nothing[day]):
            return day
    return None


def gain(curve: Curve, tenant: TenantLedger) -> float:
    """The share of the gain of all days that a curve has."""
    most = sum(tenant.best) - sum(tenant.nothing)
    return (sum(curve) - sum(tenant.nothing)) / most
