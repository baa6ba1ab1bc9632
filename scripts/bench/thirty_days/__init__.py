"""Thirty days of a company that learns from its traffic, with a poisoner, drift, an erasure, kills and a full disk.

Everything is **simulated** but the product: users, feedback, the models, the reviewers, and the clock, which agentlearn
asks for the time. Conversations and feedback go through the gateway; `live`, canaries, the inbox and `store forget` are
called as a program calls them. A canary of each tenant reads half of the conversations. Each seed runs in child
processes that are ended by kill -9 at drawn moments; of the first seeds a twin runs that nobody kills, and its ledger
must be the same to the digit.

    just bench thirty_days                         # 20 seeds: the first with 20 tenants, the others with 5 of them
    just bench thirty_days --seeds 1 --per-day 6   # small
    just bench thirty_days --folder DIR            # keeps what is done in DIR, and goes on with it

The first seed has 20 tenants and about 40,000 conversations. The others have five tenants of the same sizes, with one
kind of delay and all scales: four seeds together have all kinds.
"""

import argparse
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from scripts.bench.found import Found, Row, Target
from scripts.bench.thirty_days.company import DAYS, Company
from scripts.bench.thirty_days.ledger import Decision, SeedLedger, days_until, gain, ledger_of
from scripts.bench.thirty_days.office import Office

_LEAST_S = 0.3
"""Shortest life of a child process that is killed."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--whole", type=int, default=1, help="how many seeds, from seed 0 on, have 20 tenants")
    parser.add_argument("--tenants", type=int, default=5, help="tenants of the other seeds")
    parser.add_argument("--per-day", type=int, default=38, help="conversations a day of a small tenant")
    parser.add_argument("--kills", type=int, default=6, help="times that each seed is ended by kill -9")
    parser.add_argument("--twins", type=int, default=2, help="seeds that run a second time, without being killed")
    parser.add_argument("--folder", type=Path, help="keeps the ledger of each seed, and what a seed has done so far")


def measure(chosen: argparse.Namespace) -> Found:
    """Return what became of thirty days, for each seed."""
    ledgers, failures, cpu = list[SeedLedger](), list[str](), 0.0
    with TemporaryDirectory() as temporary:
        folder: Path = chosen.folder or Path(temporary)
        seeds = range(chosen.first, chosen.first + chosen.seeds)
        for seed in seeds:
            company = _company(chosen, seed)
            ledger, spent = run_seed(company, folder / f"seed-{seed:02}", kills=chosen.kills)
            ledgers.append(ledger)
            cpu += spent
            print(f"seed {seed}: {spent:.0f} CPU s, {figures_of(ledger)}", file=sys.stderr, flush=True)
        # twins last: the whole seed is not among them, for it costs as much as four others
        small = [seed for seed in seeds if seed >= chosen.whole or chosen.seeds == 1][: chosen.twins]
        for seed in small:
            twin, spent = run_seed(_company(chosen, seed), folder / f"twin-{seed:02}", kills=0)
            cpu += spent
            if twin != ledgers[seed - chosen.first]:
                failures.append(f"seed {seed}: after kills the ledger is another one")
    failures += [words for ledger in ledgers for words in wrong_in(ledger)]
    rows = [Row(name=f"seed {one.seed}", figures=figures_of(one)) for one in ledgers]
    every = [one for ledger in ledgers for one in ledger.decisions]
    notes = ["everything is simulated but agentlearn", f"twins that nobody killed: {len(small)}"]
    notes += list(_by_kind(every))
    tenants = [one for ledger in ledgers for one in ledger.tenants]
    promoted, back = ([one for one in every if one.outcome == kind] for kind in ("promote", "roll_back"))
    targets = (
        Target(what="wrong: crossed, not erased, refused, or other after kills", figure=len(failures), bound="at_most",
               limit=0),
        Target(what="largest share of a tenant's conversations that read a harmful lesson beyond its canary",
               figure=max(one.harmful for one in tenants), bound="at_most", limit=0.05),
        Target(what="promoted canaries that are worse by the margin", figure=_share(promoted), bound="at_most",
               limit=0.1),
        Target(what="canaries rolled back that are not worse", figure=_share(back), bound="at_most", limit=0.1),
        Target(what="CPU minutes", figure=cpu / 60, bound="at_most", limit=60),
    )  # fmt: skip
    return Found(rows=tuple(rows), targets=targets, failures=tuple(failures), notes=tuple(notes))


def _company(chosen: argparse.Namespace, seed: int) -> Company:
    if seed < chosen.whole:
        return Company(seed, range(20), chosen.per_day)
    first = 5 * (seed % 4)
    return Company(seed, range(first, first + chosen.tenants), chosen.per_day)


def run_seed(company: Company, folder: Path, *, kills: int) -> tuple[SeedLedger, float]:
    """Run the days of a company in child processes of which so many are killed, and return its ledger and CPU seconds.

    A folder that holds the ledger already is only read; one that holds a part of the days goes on.
    """
    done, began = folder.with_suffix(".json"), _children_s()
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draw = random.Random(f"kills of {company.seed}")
        lives = [draw.uniform(_LEAST_S, _LEAST_S + 2 * company.conversations / 500) for _ in range(kills)]
        while not _child(company, folder, lives.pop() if lives else None):
            pass
        shutil.rmtree(folder)
    ledger = SeedLedger.model_validate_json(done.read_bytes())
    return ledger, _children_s() - began


def _child(company: Company, folder: Path, lives_s: float | None) -> bool:
    """Go on with the days in a child process; True when all are over. lives_s: after which time it is killed."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            office = Office(company, folder)
            office.work()
            folder.with_suffix(".json").write_text(ledger_of(office).model_dump_json())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    ends = None if lives_s is None else time.monotonic() + lives_s
    while True:
        ended, status = os.waitpid(child, 0 if ends is None else os.WNOHANG)
        if ended:
            break
        if ends is not None and time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
            ends = None
        time.sleep(0.01)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError(f"seed {company.seed} broke off")
    return os.WIFEXITED(status)


def _children_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def wrong_in(ledger: SeedLedger) -> Iterator[str]:
    """What must not have happened."""
    seed = f"seed {ledger.seed}"
    if ledger.crossed:
        yield f"{seed}: {ledger.crossed} prompts with a word of another tenant"
    yield from (f"{seed}, {one.tenant}: {words}" for one in ledger.tenants for words in one.left)
    yield from (f"{seed}: {count} times: {words}" for words, count in ledger.refused.items())


def figures_of(ledger: SeedLedger) -> dict[str, float | None]:
    """The figures of one seed: means over its tenants, and its canaries by what became of them."""
    tenants, found = ledger.tenants, dict[str, float | None]()
    for name in ("ours", "everything"):
        days = [days_until(getattr(one, name), one) for one in tenants]
        late = [DAYS if one is None else one for one in days]
        found[f"{name}_gain"] = round(fmean(gain(getattr(one, name), one) for one in tenants), 3)
        found[f"{name}_90_day"] = median(late)
    outcomes = [one.outcome for one in ledger.decisions]
    found |= {f"{name}": outcomes.count(name) for name in ("promote", "roll_back", "stopped", "open")}
    found["wrong"] = sum(one.wrong for one in ledger.decisions)
    found["harmful_most"] = round(max(one.harmful for one in tenants), 4)
    found["harmful_in_canary_most"] = round(max(one.harmful_in_canary for one in tenants), 4)
    return {"conversations": sum(one.conversations for one in tenants), **found}


def _share(decisions: Sequence[Decision]) -> float:
    return sum(one.wrong for one in decisions) / max(1, len(decisions))


def _by_kind(every: Sequence[Decision]) -> Iterator[str]:
    """Decisions by delay and by scale, and how long good and harmful lessons took."""
    for name in ("delay", "scale"):
        for kind in sorted({getattr(one, name) for one in every}):
            of = [one for one in every if getattr(one, name) == kind]
            counts = Counter(one.outcome for one in of)
            shown = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("promote", "roll_back", "stopped", "open"))
            yield f"{name} {kind}: {shown}; wrong {sum(one.wrong for one in of)}"
    for kind in sorted({lesson for one in every for lesson in one.lessons}):
        of = [one for one in every if kind in one.lessons]
        counts = Counter(one.outcome for one in of)
        days = [one.ended - one.started for one in of if one.outcome in {"promote", "roll_back"}]
        yield f"{kind}: {dict(sorted(counts.items()))}, decided after {median(days or [0]):g} days (median)"
