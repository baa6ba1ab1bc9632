"""The MCP tools with which a coding agent plans, prices, starts and reads runs of `learn` and `compare`.

A run is the command that a person would type, in a process of its own that outlives this server. It keeps the limit
that was stated at its start, and its versions wait for a person. No lesson that waits is quoted.
"""

import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from agentlearn.config.defaults import command_words
from agentlearn.config.options import SiteOptions, StoreOptions, TrustOptions
from agentlearn.config.settings import read_recipe
from agentlearn.errors import AgentlearnError, ConfigError, StoreMissing
from agentlearn.learning.costs import CostEstimate
from agentlearn.learning.lessons.trust import PendingVersion, pending_versions
from agentlearn.learning.report import LearnReport
from agentlearn.library import LibraryStore
from agentlearn.live.forgetting import STARTED
from agentlearn.pages.runs import RunRecord, end_reason, held_out_lines, next_step, result_words
from agentlearn.store import RunRow, StoreReader, read_store
from agentlearn.text import visible_line
from agentlearn.text.files import own, own_folder
from agentlearn.types.ids import new_run_id
from agentlearn.types.run_event import RunKind

_FOR_A_PERSON = frozenset(
    {*TrustOptions.model_fields, *SiteOptions.model_fields, *StoreOptions.model_fields}
    | {"api_key", "sandbox", "record", "served_at", "ray", "on", "publish", "tenant"}
    | {"yes", "json", "dry_run", "resume", "notify", "log", "out", "fail_if", "help", "help_all"}
)
"""Settings that decide about trust, publishing, isolation or the store, and options that belong to a terminal."""
_LIMITS = frozenset({"max_cost_usd", "max_tokens"})
"""Settings that `start` states."""
_MOST_PLANS = 100
_KINDS: dict[str, RunKind] = {"learn": "learn", "compare": "eval"}
"""Kinds of runs by command."""

_PROGRAM = (sys.executable, "-P", "-m", "agentlearn")

_Plan = Annotated[str, Field(min_length=26, max_length=26, description="The id that `plan` returned.")]
_Run = Annotated[str, Field(min_length=4, max_length=64, description="Id of a plan that was started, or of a run.")]
_Word = Annotated[str, Field(max_length=1_000)]
_What = Field(max_length=50, description="What `learn` learns from (math, a task file), or the arms of `compare`.")
_Options = Annotated[
    dict[str, str | int | float | bool | list[str | int | float]],
    Field(description='Options of the command by name, without dashes, such as {"limit": 20, "group-size": 4}.'),
]


class PlanPrice(BaseModel):
    """What a run will roughly cost."""

    cost_usd: float | None
    """None when a price is unknown."""
    least_usd: float | None
    most_usd: float | None
    calls: int
    tokens: int
    wall_s: float | None
    """How long it takes, in seconds; None when it is not known."""
    paid: list[str]
    """Models that may cost money; with none, the run costs nothing."""
    words: str


class PlannedRun(BaseModel):
    """A run that can be started."""

    plan: str
    command: str
    """What a person would type."""
    price: PlanPrice
    notes: list[str]
    details: dict[str, Any]
    """What `--dry-run --json` prints."""


class StartedRun(BaseModel):
    """A run that was started, in a process of its own."""

    plan: str
    command: str
    pid: int
    """Its process; `kill -INT` of it stops the run so that it can be resumed."""
    kind: RunKind
    about: int
    """Number of rollouts that the plan expects."""
    after: str
    """The newest run of the store before it."""


class RunStatus(BaseModel):
    """How far a run is."""

    run: str | None = None
    """None until the run is in the store, and for one that ended before."""
    state: Literal["starting", "running", "done", "failed", "interrupted"]
    rollouts: dict[str, int] = {}
    """Number of rollouts by outcome."""
    about: int | None = None
    """Rollouts that the plan expects; None for a run that was not started here."""
    cost_usd: float = 0.0
    unpriced_calls: int = 0
    tokens: int = 0
    reason: str = ""
    """Why it failed or was interrupted."""
    next: str
    resume: str = ""
    """The command that continues it; empty when it is running or done."""


class ShownRun(BaseModel):
    """What a run found. Lessons that wait for a person are not part of it."""

    run: str
    verdict: str
    lines: list[str]
    waits: str
    """The version that waits for a person, and why; empty when none does."""
    report: str
    """The report page for a person; empty when there is none."""


@dataclass
class RunTools:
    """The tools. The server calls each in a thread."""

    store: Path
    folders: Sequence[Path]
    """Folders whose files a run may name; runs work in the first one."""
    max_cost_usd: float = 0.0
    """Dollars that all runs together may be given as limits; 0: only what costs nothing is started."""
    _plans: dict[str, tuple[Sequence[str], PlannedRun]] = field(default_factory=dict[str, Any])
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list[Any])
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def plan(
        self,
        command: Literal["learn", "compare"],
        what: Annotated[list[_Word], _What],
        options: _Options = {},  # noqa: B006  never changed
    ) -> PlannedRun:
        """Say what a run would do, and what it would cost. Nothing is started."""
        words = [command, *self._words(what, options), *(["--no-publish"] if command == "learn" else [])]
        planned = self._planned(words)
        if len(self._plans) >= _MOST_PLANS:
            self._plans.pop(next(iter(self._plans)))
        self._plans[planned.plan] = words, planned
        return planned

    def estimate(self, plan: _Plan) -> PlanPrice:
        """Price a plan again: the store may know more by now, for example after a pilot."""
        return self._planned(self._known(plan)[0]).price

    def start(
        self,
        plan: _Plan,
        max_cost_usd: Annotated[float, Field(ge=0.0001, le=1e6)] | None = None,
        max_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None,
    ) -> StartedRun:
        """Start a planned run, once. Tell the person its price first; a run that costs money needs max_cost_usd."""
        words, planned = self._known(plan)
        limits = {"--max-cost-usd": max_cost_usd, "--max-tokens": max_tokens}
        words = [*words, *(f"{name}={value}" for name, value in limits.items() if value is not None)]
        price = self._planned(words).price
        with self._starting:
            if price.paid:
                self._refuse_to_spend(price, max_cost_usd, words)
            after = ""
            with suppress(StoreMissing), read_store(self.store) as reader:
                after = max((one.run for one in reader.runs(limit=1)), default="")
            folder = own_folder(self.store / STARTED, self.store)
            try:  # the file of the result is made first, and only once: a repeated call starts no second run
                out = os.open(folder / f"{plan}.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                why = f"plan {plan!r} was started before: see its status, or plan again"
                raise ConfigError(why, code="already_started") from None
            with os.fdopen(out, "wb") as file:
                child = subprocess.Popen(  # noqa: S603  arguments that were checked
                    [*_PROGRAM, *words, "--store", str(self.store), "--json", "--yes"],
                    cwd=self.folders[0],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            self._children.append(child)
            self.max_cost_usd -= (max_cost_usd or 0.0) if price.paid else 0.0
        command, about = command_words(*words, store=self.store), _estimate(planned.details).rollouts
        started = StartedRun(plan=plan, command=command, pid=child.pid, kind=_KINDS[words[0]], about=about, after=after)
        (folder / f"{plan}.note").write_text(started.model_dump_json(), encoding="utf-8")
        return started

    def status(self, run: _Run) -> RunStatus:
        """Say how far a run is, what it has cost, and how it goes on."""
        note = self._note(run)
        with suppress(*(() if note is None else (StoreMissing,))), read_store(self.store) as reader:
            if (row := self._find(reader, run, note)) is not None:
                return self._stored_status(reader, row, note)
        assert note is not None  # else the store has raised that it knows no such run
        printed = own(self.store / STARTED / f"{run}.json", self.store).read_text(encoding="utf-8")
        if not printed and self._goes_on(note.pid):
            return RunStatus(state="starting", about=note.about, next="ask again soon")
        fault: dict[str, str] = json.loads(printed or "{}").get("error") or {
            "code": "ended",
            "message": "without a word",
        }
        following = f"correct the cause, then plan again; by hand: {note.command}"
        reason = f"{fault['code']}: {fault['message']}"
        return RunStatus(state="failed", about=note.about, reason=reason, next=following)

    def show(self, run: _Run) -> ShownRun:
        """Show the verdict of a run, with its numbers."""
        with read_store(self.store) as reader:
            row, waiting = self._ended(reader, run)
            if row.kind == "learn":
                report = LearnReport.model_validate_json(row.report)
                lines = [*held_out_lines(report), *([report.selection.reason] if report.selection else [])]
            else:
                lines = RunRecord.read(reader, row.run).main_lines
        page = self.store / "reports" / f"{row.run}.html"
        return ShownRun(
            run=row.run,
            verdict=result_words(row.report).strip(),
            lines=[visible_line(one, 1_000) for one in lines],
            waits="; ".join(f"{one.reference}: {one.reason}" for one in waiting),
            report=str(page) if page.exists() else "",
        )

    def apply(self, run: _Run) -> None:
        """Ask for what a run learned to be published. Always refused: the answer says how a person does it."""
        with read_store(self.store) as reader:
            row, waiting = self._ended(reader, run)
        if not waiting:
            raise ConfigError(f"nothing of run {row.run!r} waits to be published", code="nothing_waits")
        approve = command_words("library", "approve", waiting[0].reference, store=self.store)
        raise ConfigError(
            f"{waiting[0].reference} waits for a person, who alone publishes: at the address that"
            f" `{command_words('view', 'waiting', store=self.store)}` prints, or with `{approve}`",
            code="needs_a_person",
        )

    def _words(self, what: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        """The arguments and options of a command line. Raises ConfigError for what an agent may not give."""
        for word in what:
            if word.startswith("-"):
                raise ConfigError(f"{visible_line(word, 60)!r} is an option; give it in options", code="bad_argument")
            if word.endswith((".yaml", ".yml")):
                self._refuse_files([word])
                self._refuse_settings(read_recipe(self.folders[0] / word), with_limits=False)
        self._refuse_files(what)
        self._refuse_settings(options)
        words = list(what)
        for name, given in options.items():
            option = f"--{name.replace('_', '-')}"
            for value in given if isinstance(given, list) else [given]:
                flag = option if value is True else f"--no-{option[2:]}"
                words.append(flag if isinstance(value, bool) else f"{option}={value}")
        return words

    def _refuse_settings(self, given: Mapping[str, Any], *, with_limits: bool = True) -> None:
        for name, value in given.items():
            plain = name.replace("-", "_")
            if not re.fullmatch("[a-z][a-z0-9_]*", plain):
                raise ConfigError(f"{visible_line(name, 60)!r} is no option", code="bad_argument")
            if {plain, plain.removeprefix("no_")} & _FOR_A_PERSON:
                raise ConfigError(f"only a person can give {name!r}, on the command line", code="for_a_person")
            if with_limits and plain in _LIMITS:
                raise ConfigError(f"give {name!r} to start, which states the limit of a run", code="bad_argument")
            self._refuse_files(_texts_in(value))

    def _refuse_files(self, texts: Sequence[str]) -> None:
        """Raise ConfigError for a text that names a file outside the folders, whatever the option makes of it."""
        for part in (one for text in texts for one in re.split("[,=+]", text)):
            if part.startswith(("http://", "https://")):
                continue
            if "\0" in part:
                raise ConfigError(
                    f"{visible_line(part, 60)!r} holds a NUL character; leave it out", code="bad_argument"
                )
            for name in (part, part.partition(":")[2]):
                path = (self.folders[0] / os.path.expanduser(name)).resolve()  # noqa: PTH111  `~nobody` stays as it is
                if not any(path.is_relative_to(one) for one in self.folders):
                    raise ConfigError(
                        f"{visible_line(part, 200)!r} is outside {str(self.folders[0])!r}; a person allows more with"
                        " agentlearn mcp --runs --allow-folder DIR",
                        code="outside_folder",
                    )

    def _planned(self, words: Sequence[str]) -> PlannedRun:
        """The plan of a command line, from its dry run in a process of its own. Raises what the command says."""
        command, where = [*_PROGRAM, *words, "--store", str(self.store), "--dry-run", "--json"], self.folders[0]
        done = subprocess.run(  # noqa: S603  a list of arguments that were checked
            command, cwd=where, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        told = [visible_line(line, 400) for line in done.stderr.decode(errors="replace").splitlines()]
        try:
            found: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise AgentlearnError(f"the dry run failed: {told[-1] if told else done.returncode}") from None
        if done.returncode:
            raise ConfigError(found["error"]["message"], code=found["error"]["code"])
        return PlannedRun(
            plan=new_run_id(),
            command=command_words(*words, store=self.store),
            price=_price(found),
            notes=told,
            details=found,
        )

    def _known(self, plan: str) -> tuple[Sequence[str], PlannedRun]:
        if plan not in self._plans:
            raise ConfigError(f"this server knows no plan {plan!r}; call plan", code="unknown_plan")
        return self._plans[plan]

    def _refuse_to_spend(self, price: PlanPrice, max_cost_usd: float | None, words: Sequence[str]) -> None:
        """Raise ConfigError unless a person has allowed the limit."""
        if price.cost_usd is None or self.max_cost_usd <= 0:
            why = "its price is not known" if price.cost_usd is None else "this server starts what costs nothing"
            raise ConfigError(
                f"{', '.join(price.paid)} may cost money: {price.words}; {why}, so a person starts it:"
                f" {command_words(*words, store=self.store)}, or allows a sum: agentlearn mcp --runs --max-cost-usd N",
                code="not_allowed_to_spend",
            )
        if max_cost_usd is None:
            raise ConfigError(
                f"{', '.join(price.paid)} may cost money: {price.words}; state a limit, max_cost_usd", code="no_limit"
            )
        if max_cost_usd > self.max_cost_usd:
            raise ConfigError(
                f"a limit of ${max_cost_usd:.2f} is more than the ${self.max_cost_usd:.2f} that are left of what a"
                " person allowed",
                code="not_allowed_to_spend",
            )

    def _note(self, plan: str) -> StartedRun | None:
        """What was noted of a plan that was started; None for another thing."""
        file = self.store / STARTED / f"{plan}.note"
        if not re.fullmatch("[0-9a-z]{26}", plan) or not file.exists():
            return None
        return StartedRun.model_validate_json(own(file, self.store).read_bytes())

    def _find(self, reader: StoreReader, thing: str, note: StartedRun | None) -> RunRow | None:
        """The run that is meant. None: a plan that was started, and is not in the store, or not yet."""
        if note is None:
            return reader.run(thing)
        printed = (self.store / STARTED / f"{thing}.json").stat()
        until = printed.st_mtime if printed.st_size else math.inf  # what began after its process had ended is another
        runs = (one for one in reversed(reader.runs(limit=1_000)) if one.run > note.after and one.kind == note.kind)
        return next((one for one in runs if one.started_at.timestamp() <= until), None)

    def _stored_status(self, reader: StoreReader, row: RunRow, note: StartedRun | None) -> RunStatus:
        totals = reader.stage_totals(row.run)
        again = command_words("learn", "--resume", row.run, store=self.store) if row.kind == "learn" else ""
        again = again or (note.command if note else "")
        return RunStatus(
            run=row.run,
            state=row.state,
            rollouts=reader.counts(row.run).rollouts,
            about=note and note.about,
            cost_usd=sum(one.cost_usd for one in totals),
            unpriced_calls=sum(one.unpriced for one in totals),
            tokens=sum(one.tokens_in + one.tokens_out for one in totals),
            reason=end_reason(reader, row),
            next=next_step(reader, row),
            resume=again if row.state in {"failed", "interrupted"} else "",
        )

    def _goes_on(self, pid: int) -> bool:
        """Whether the process of a run is there. One of this server's own is forgotten when it has ended."""
        self._children = [one for one in self._children if one.poll() is None]
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            return True
        return False

    def _ended(self, reader: StoreReader, thing: str) -> tuple[RunRow, Sequence[PendingVersion]]:
        """The run that is meant, and what of it waits for a person. Raises ConfigError where it has no report."""
        row = self._find(reader, thing, self._note(thing))
        if row is None or not row.report or row.kind not in _KINDS.values():
            state = "not in the store" if row is None else row.state
            raise ConfigError(f"{thing!r} has no verdict: it is {state}; ask for its status", code="no_verdict")
        return row, pending_versions(reader, LibraryStore(self.store / "libraries"), run=row.run)


def _estimate(found: Mapping[str, Any]) -> CostEstimate:
    """The estimate in a plan of `learn` or of `compare`."""
    return CostEstimate.model_validate(found.get("estimate") or found["total"])


def _price(found: Mapping[str, Any]) -> PlanPrice:
    """The price in a plan of `learn` or of `compare`."""
    one = _estimate(found)
    return PlanPrice(
        cost_usd=one.cost_usd,
        least_usd=one.least and one.least.cost_usd,
        most_usd=one.most and one.most.cost_usd,
        calls=sum(stage.calls for stage in one.stages),
        tokens=one.tokens_in + one.tokens_out,
        wall_s=found.get("wall_s"),
        paid=list(found["paid"]),
        words=one.sentence(),
    )


def _texts_in(value: object) -> list[str]:
    """All texts in a setting."""
    if isinstance(value, Mapping):
        return [text for one in value.values() for text in _texts_in(one)]
    if isinstance(value, list | tuple):
        return [text for one in value for text in _texts_in(one)]
    return [value] if isinstance(value, str) else []
