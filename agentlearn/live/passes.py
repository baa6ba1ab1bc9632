"""Learning from live traffic again and again: one pass takes what is new, and leaves the rest as it is.

STORE/live/NAME/passes.jsonl    one line per pass: what it learned from, what came of it, and what it cost
STORE/live/NAME/under_way.json  the run of a pass that has begun, and its groups; the next pass resumes it
STORE/live/NAME/groups.sqlite   the groups of all that was read, so that a pass reads only what is new
STORE/live/NAME/store.lock      held by the process that learns for the library
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError
from typing_extensions import Unpack

from agentlearn.config import LearnSettings, learn_settings
from agentlearn.config.solve_options import LearnOptions
from agentlearn.errors import (
    AgentlearnError,
    BudgetExceeded,
    ConfigError,
    Interrupted,
    StoreLocked,
    StoreMissing,
    root_cause,
)
from agentlearn.learning.callbacks import Callbacks, calling_both
from agentlearn.learning.costs import refuse_unpriced
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.learning.live_groups import KEPT_FILE, KeptGroups
from agentlearn.learning.open_run import USUAL_TASKS, resumed_run
from agentlearn.learning.report import LearnReport
from agentlearn.learning.stored_groups import held_out_tasks
from agentlearn.learning.subject import NOTHING_GIVEN, Given, named_model
from agentlearn.library import LibraryStore
from agentlearn.library.tenants import tenant_store
from agentlearn.live.canary import step_canary
from agentlearn.live.inbox import Inbox
from agentlearn.live.waiting import LabelChange
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.store import StoreReader, read_store
from agentlearn.store.queries import RunRow
from agentlearn.store.store_files import LOCK, StoreLock
from agentlearn.text import clock
from agentlearn.text.files import own, own_folder, sync, write_whole
from agentlearn.types.experience import counted_lessons
from agentlearn.types.group import Groups, LiveGroup
from agentlearn.types.ids import RunId, content_hash
from agentlearn.types.task import Task
from agentlearn.types.value import Value

if TYPE_CHECKING:
    from pydantic_ai.models import Model

FOLDER = "live"
_PASSES, _UNDER_WAY = "passes.jsonl", "under_way.json"
_MARK, _TRIES = 16, 3
_NOTHING = frozenset({"no_groups", "no_logs"})
"""Codes of a run that finds nothing to learn from in groups that are new: all of them are held out."""

PassOutcome = Literal["learned", "nothing_new", "over_budget", "failed"]


class LivePass(Value):
    """What one pass over the live traffic did."""

    number: int
    at: datetime
    """When it ended."""
    outcome: PassOutcome
    """learned: a run has finished. nothing_new: there was nothing to learn from, and no model was called. over_budget:
    the budget of the pass or of the day was used up; the next pass goes on. failed: see `code` and `words`."""
    words: str
    """What came of it, in a sentence."""
    code: str = ""
    """Code of the error that it failed with."""
    run: RunId | None = None
    resumed: bool = False
    """Whether it went on with the run of an earlier pass."""
    groups: int = 0
    """New groups of recorded rollouts that it learned from."""
    measured: bool = False
    """Whether the lessons were measured on held-out tasks."""
    waiting: int = 0
    """Things that wait for a person's decision, in the whole store."""
    cost_usd: float | None = 0.0
    """What its calls cost; None when the price of a call is not known."""
    tokens: int = 0
    canary: str = ""
    """What the rule did with the canary of the library, and why; empty without a canary."""
    alarms: tuple[LabelChange, ...] = ()
    """Lessons whose label got worse, or was lost, since the last look."""
    marks: tuple[str, ...] = ()
    """Which rollouts with which rewards it learned from, as hashes. Left out of what is printed."""
    left: tuple[str, ...] = ()
    """The same of groups whose comparison failed. Later passes try them again, twice."""


class _Noting(Callbacks):
    """Keeps the groups of a run before its first call to a model, so that a later pass can resume it."""

    def __init__(self, file: Path, work: "_Work") -> None:
        self.file, self.work = file, work

    def opened(
        self,
        call_context: CallContext,
        endpoint: Endpoint,
        reflector: Endpoint,
        train: tuple[Task, ...],
        test: tuple[Task, ...],
    ) -> None:
        groups = self.work.groups.model_dump(mode="json")
        document = {"run": call_context.run, "measured": self.work.measured, "groups": groups}
        write_whole(self.file, json.dumps(document).encode(), private=True)


@dataclass(frozen=True, slots=True)
class _Work:
    """What a pass learns from."""

    groups: Groups
    test: tuple[Task, ...] | None
    """Held-out tasks; None: those of the settings."""
    measured: bool
    run: RunId | None = None
    """The run to resume."""


class LiveLearning:
    """Learns from the recorded traffic of an application, pass by pass.

    settings: of each run; `domain` is the name of the recorder. `max_cost_usd` and `max_tokens` hold for one pass.
    budget_usd, budget_tokens: limits of a day (UTC). publish_unmeasured: a version that nobody measured may be
    published where `trust` allows it; else it waits for a person. given: models as objects.
    """

    def __init__(
        self,
        settings: LearnSettings,
        *,
        budget_usd: float | None = None,
        budget_tokens: int | None = None,
        publish_unmeasured: bool = False,
        given: Given = NOTHING_GIVEN,
    ) -> None:
        refuse_unpriced(settings.endpoints, budget_usd, "--budget-usd", "--budget-tokens")
        asked = settings.evaluate and "evaluate" in settings.model_fields_set
        changes = {"from_store": True, "epochs": 1, "evaluate": asked or bool(settings.test_data)}
        self.settings = settings.model_copy(update=changes)
        self.budget_usd, self.budget_tokens, self.publish_unmeasured = budget_usd, budget_tokens, publish_unmeasured
        self.given = given
        self.folder = settings.store / FOLDER / settings.library_name
        self.passes: list[LivePass] = []

    @contextmanager
    def held(self) -> Generator["LiveLearning"]:
        """Be the only process that learns for this library in the block. Raises StoreLocked, naming the other one."""
        own_folder(self.folder, self.settings.store)
        try:
            lock = StoreLock(self.folder)
        except StoreLocked as error:
            holder = (self.folder / LOCK).read_text(errors="replace").strip() or "unknown"
            raise StoreLocked(
                f"process {holder} learns from the live traffic of {self.settings.library_name!r} already; stop it"
                " first, or leave it to that one"
            ) from error
        try:
            self.passes = list(self._read())
            yield self
        finally:
            lock.release()

    async def run_pass(self, callbacks: Callbacks | None = None) -> LivePass:
        """Learn from what is new since the passes before, and note what came of it. Call it in a `held` block.

        A pass that fails is noted too, and what it began goes on in the next one. Raises Interrupted where the user
        stopped it; nothing is lost then.
        """
        fields = dict[str, Any]()
        try:
            fields |= await asyncio.to_thread(self._canary)
            fields |= await self._learned(callbacks or Callbacks())
        except BaseExceptionGroup as error:
            fields |= self._failed(root_cause(error))
        except (AgentlearnError, OSError) as error:
            fields |= self._failed(error)
        if "waiting" not in fields:
            with suppress(AgentlearnError, OSError):  # such as a locked store: the next pass looks again
                fields |= await asyncio.to_thread(self._looked, fields.get("run"))
        done = LivePass.model_validate({**fields, "number": len(self.passes) + 1, "at": clock.now()})
        self.passes.append(done)
        try:
            self._append(done)
        except OSError as error:
            more = f"{done.words}; the pass could not be noted: {error}"
            done = self.passes[-1] = done.model_copy(update={"words": more})
        return done

    async def _learned(self, callbacks: Callbacks) -> dict[str, Any]:
        if (over := self._over()) is not None:
            return {"outcome": "over_budget", "words": over}
        work = await asyncio.to_thread(self._work)
        if not len(work.groups):
            return {"outcome": "nothing_new", "words": self._nothing(work.groups)}
        settings, spent = self.settings, (0.0, 0)
        history = LibraryStore(settings.store / "libraries").history(settings.library_name)
        tried = history.exists and history.canary is not None  # a version published meanwhile would end the canary
        trust = settings.trust if (work.measured or self.publish_unmeasured) and not tried else ()
        settings = settings.model_copy(update={"evaluate": work.measured, "trust": trust})
        if all(group.task.answer is None for group in work.groups.groups):  # no version can be judged on such tasks
            settings = settings.model_copy(update={"validation_rollouts": 0})
        if work.run is not None:
            with read_store(settings.store) as reader:
                run = resumed_run(reader, work.run, settings)
                spent = _spent(reader, run)
        noting = _Noting(self.folder / _UNDER_WAY, work)
        report = await run_learning(
            settings.model_copy(update=self._limits(*spent)),
            calling_both(callbacks, noting, Callbacks),
            resume=work.run,
            given=replace(self.given, groups=work.groups, test=work.test),
        )
        found = await asyncio.to_thread(self._of_finished, work, report.run)
        words = _words(report, work.groups, nothing_read=not found["marks"])
        return {"outcome": "learned", "words": words} | found

    def _of_finished(self, work: _Work, run: RunId) -> dict[str, Any]:
        """What a pass notes of its run, and what waits, in one look at the store."""
        with read_store(self.settings.store) as reader:
            found = self._of_run(work, reader, reader.run(run))
            with suppress(AgentlearnError, OSError):  # `run_pass` looks again
                found |= self._looked(run, reader)
        return found

    def _of_run(self, work: _Work, reader: StoreReader, row: RunRow) -> dict[str, Any]:
        """What a pass notes of a finished run."""
        stages: Mapping[str, Any] = json.loads(row.report)["stages"]
        failed = any(stage["malformed"] for stage in stages.values())
        compared = {unit.task for unit in reader.lesson_units(row.run) if unit.stage == "compare"}
        tries = Counter(mark for one in self.passes for mark in one.left)
        marks, left = set[str](), set[str]()
        for group in work.groups.groups:
            for mark in _marks(group):
                again = failed and group.task.id not in compared and tries[mark] < _TRIES - 1
                (left if again else marks).add(mark)
        found = {"groups": len(work.groups), "measured": work.measured, "resumed": work.run is not None}
        return {**found, "run": row.run, "marks": tuple(sorted(marks)), "left": tuple(sorted(left))}

    def _failed(self, error: BaseException) -> dict[str, Any]:
        """What a pass notes that an error ended. Bugs and interruptions pass through."""
        if isinstance(error, Interrupted) or not isinstance(error, AgentlearnError | OSError):
            raise error
        code = error.code if isinstance(error, AgentlearnError) else "machine"
        run, words = self._saved().get("run"), str(error)
        if isinstance(error, ConfigError) and error.code in _NOTHING:
            return {"outcome": "nothing_new", "words": words}
        if isinstance(error, BudgetExceeded):
            for unit, limit in (("usd", "cost_usd"), ("tokens", "tokens")):
                if getattr(self.settings, f"max_{limit}") is None:  # then the limit is what is left of the day's
                    words = words.replace(f"--max-{limit.replace('_', '-')}", f"the rest of --budget-{unit}")
            return {"outcome": "over_budget", "words": f"{words}; the next pass goes on with it", "run": run}
        tried = sum(one.outcome == "failed" and one.run == run for one in self.passes) + 1
        if run is not None and (isinstance(error, ConfigError) or tried >= _TRIES):
            (self.folder / _UNDER_WAY).unlink(missing_ok=True)
            words += f"; run {run} is left as it is, and the next pass begins anew"
        return {"outcome": "failed", "code": code, "words": words, "run": run}

    # What there is to learn from.

    def _work(self) -> _Work:
        """The groups of a run that was broken off, or those with something new in them."""
        if (begun := self._begun()) is not None:
            return begun
        name, store = self.settings.domain, self.settings.store
        known = {mark for one in self.passes for mark in one.marks}
        kept = KeptGroups(self.folder / KEPT_FILE, name, min_size=self.settings.min_rollouts)
        measured, test, groups = self.settings.evaluate, None, Groups(name=name, store=store)
        try:
            with read_store(store) as reader:
                groups = kept.new(reader, lambda one: _can_teach(one) and not known.issuperset(_marks(one)))
                if len(groups) and measured and not self.settings.test_data:
                    test = tuple(held_out_tasks(kept.every(), reader, USUAL_TASKS))
        except StoreMissing:
            pass
        except ConfigError:  # no recorded task has a right answer: what cannot be measured waits for a person
            measured = False
        return _Work(groups, test, measured)

    def _begun(self) -> _Work | None:
        """The run of a pass that was broken off. One that had finished is noted, and not begun again."""
        saved = self._saved()
        if not saved:
            return None
        try:
            with read_store(self.settings.store) as reader:
                row = reader.run(saved["run"])
                groups, inputs = Groups.model_validate(saved["groups"]), reader.run_inputs(row.run)
                held_out = () if inputs is None else inputs.test
                tasks = reader.tasks(held_out)
                test = tuple(tasks[one] for one in held_out)
                work = _Work(groups, test or None, bool(saved["measured"]), row.run)
                done = self._of_run(work, reader, row) | self._cost(reader, row.run) if row.state == "done" else {}
        except (ConfigError, StoreMissing, KeyError, ValidationError):  # erased, or of another store
            (self.folder / _UNDER_WAY).unlink(missing_ok=True)
            return None
        if not done:
            return work
        if all(one.run != row.run or one.outcome != "learned" for one in self.passes):
            words = "an earlier pass had learned from this, and was ended before it noted so"
            fields = {"number": len(self.passes) + 1, "at": row.at, "outcome": "learned", "words": words}
            noted = LivePass.model_validate({**fields, **done})
            self.passes.append(noted)
            self._append(noted)
        (self.folder / _UNDER_WAY).unlink(missing_ok=True)
        return None

    def _saved(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            return dict(json.loads(own(self.folder / _UNDER_WAY, self.folder).read_bytes()))
        return {}

    def _nothing(self, groups: Groups) -> str:
        if not (groups.single or groups.set_aside or groups.without_reward or self.passes):
            return f"nothing with feedback is recorded under {groups.name!r} in {str(groups.store)!r} yet"
        rest = f"; {groups.without_reward} recorded rollouts have no reward yet" if groups.without_reward else ""
        return f"nothing new to learn from, so no model was called{rest}"

    # Budgets.

    def _today(self) -> tuple[float, int]:
        """What the passes of this day (UTC) have spent, in dollars and in tokens."""
        passes = [one for one in self.passes if one.at.date() == clock.now().date()]
        return sum(one.cost_usd or 0.0 for one in passes), sum(one.tokens for one in passes)

    def _over(self) -> str | None:
        """Why nothing may be spent any more today; None where something may."""
        cost_usd, tokens = self._today()
        if self.budget_usd is not None and cost_usd >= self.budget_usd:
            return f"${cost_usd:.2f} of the day's ${self.budget_usd:g} are spent; no model was called"
        if self.budget_tokens is not None and tokens >= self.budget_tokens:
            return f"{tokens:,} of the day's {self.budget_tokens:,} tokens are used; no model was called"
        return None

    def _limits(self, before_usd: float, before_tokens: int) -> dict[str, float | None]:
        """The limits of a run in this pass. before_usd, before_tokens: what the run has spent already."""
        cost_usd, tokens = self._today()
        usd = [self.settings.max_cost_usd, self.budget_usd and self.budget_usd - cost_usd]
        most = [self.settings.max_tokens, self.budget_tokens and self.budget_tokens - tokens]
        least_usd, least = min(filter(None, usd), default=None), min(filter(None, most), default=None)
        return {
            "max_cost_usd": None if least_usd is None else before_usd + least_usd,
            "max_tokens": None if least is None else before_tokens + least,
        }

    # What is noted.

    def _canary(self) -> dict[str, Any]:
        """Promote the canary, roll it back, or let it collect more feedback; and see whether labels got worse."""
        libraries = LibraryStore(self.settings.store / "libraries")
        if not libraries.history(self.settings.library_name).exists:
            return {}
        step = step_canary(libraries, self.settings.store, self.settings.library_name)
        canary = "" if step.outcome == "none" else f"{step.outcome}: {step.sentence}"
        return {"canary": canary, "alarms": step.alarms}

    def _looked(self, run: RunId | None, reader: StoreReader | None = None) -> dict[str, Any]:
        """What waits, and what the run of the pass has spent beyond what is noted. reader: where it is open already."""
        store = self.settings.store
        found: dict[str, Any] = {"waiting": Inbox(store / "libraries", store).count(reader)}
        if run is not None:
            with nullcontext(reader) if reader else read_store(store) as opened:
                found |= self._cost(opened, run)
        return found

    def _cost(self, reader: StoreReader, run: RunId) -> dict[str, Any]:
        """What a run has spent beyond what passes have noted."""
        before = [one for one in self.passes if one.run == run]
        cost_usd, tokens = _spent(reader, run)
        unpriced = any(one.unpriced for one in reader.stage_totals(run))
        left_usd = max(0.0, cost_usd - sum(one.cost_usd or 0.0 for one in before))
        left = max(0, tokens - sum(one.tokens for one in before))
        return {"cost_usd": None if unpriced else left_usd, "tokens": left}

    def _read(self) -> Generator[LivePass]:
        """The passes so far. A line that a crash cut off is left out."""
        try:
            lines = own(self.folder / _PASSES, self.folder).read_bytes().splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            with suppress(ValidationError):
                yield LivePass.model_validate_json(line)

    def _append(self, done: LivePass) -> None:
        """Note a pass on disk. Its run is under way no longer when that is done."""
        file = own(self.folder / _PASSES, self.folder)
        cut = file.exists() and not file.read_bytes().endswith(b"\n")
        with file.open("ab") as stream:
            stream.write(b"\n" * cut + done.model_dump_json().encode() + b"\n")
        file.chmod(0o600)
        sync(file)
        if done.outcome == "learned":
            (self.folder / _UNDER_WAY).unlink(missing_ok=True)


async def keep_learning(
    name: str,
    *,
    model: "Model | str",
    reflector: "Model | str | None" = None,
    every_s: float = 3600.0,
    passes: int | None = None,
    told: Callable[[LivePass], object] | None = None,
    store: Path | str | None = None,
    tenant: str | None = None,
    library: str | None = None,
    budget_usd: float | None = None,
    budget_tokens: int | None = None,
    publish_unmeasured: bool = False,
    callbacks: Callbacks | None = None,
    **options: Unpack[LearnOptions],
) -> LivePass:
    """Learn from the traffic that `Recorder(name)` records, pass after pass, and return what the last pass did.

    model: writes the lessons unless `reflector` does, and solves the held-out tasks (`evaluate=True`). every_s: seconds
    between two passes. passes: how many; None: until the task is cancelled. told: called with each pass when it has
    ended. tenant: learn from and for this tenant alone. library: name of the library; default: `name`. budget_usd,
    budget_tokens: limits of a day (UTC); `max_cost_usd` and `max_tokens` limit one pass. publish_unmeasured: see
    `LiveLearning`. options: settings of `LearnSettings`.

    Raises StoreLocked where another process does this; ConfigError for options that make no sense. A pass that fails
    is told, and the next one goes on.
    """
    names = {"domain": name, "store": tenant_store(store, tenant), "name": library, "model": named_model(model)}
    names["reflector"] = None if reflector is None else named_model(reflector)
    settings = learn_settings({**options, **{key: one for key, one in names.items() if one is not None}})
    objects = tuple(key for key, one in (("model", model), ("reflector", reflector)) if not isinstance(one, str | None))
    learning = LiveLearning(
        settings.model_copy(update={"given": objects}),
        budget_usd=budget_usd,
        budget_tokens=budget_tokens,
        publish_unmeasured=publish_unmeasured,
        given=Given(
            model=None if isinstance(model, str) else model,
            reflector=None if isinstance(reflector, str) else reflector,
        ),
    )
    with learning.held():
        for number in count(1):
            done = await learning.run_pass(callbacks)
            if told is not None:
                told(done)
            if number == passes:
                return done
            await asyncio.sleep(every_s)
    raise AssertionError("the passes end by a number of them or by an error")


def _can_teach(group: LiveGroup) -> bool:
    """Whether a run could learn from a group: the others wait until another rollout joins them."""
    wrong = all(one is not None and one < 1 for one in group.rewards)
    return group.mixed or group.explained or (wrong and group.task.answer is not None)


def _marks(group: LiveGroup) -> Iterable[str]:
    """One hash per rollout of a group, which another reward, or words about what was wrong, change."""
    for rollout, reward in zip(group.rollouts, group.rewards, strict=True):
        yield content_hash("learned", rollout, reward, group.explained)[:_MARK]


def _spent(reader: StoreReader, run: RunId) -> tuple[float, int]:
    totals = reader.stage_totals(run)
    return sum(one.cost_usd for one in totals), sum(one.tokens_in + one.tokens_out for one in totals)


def _words(report: LearnReport, groups: Groups, *, nothing_read: bool) -> str:
    rollouts = sum(len(group.rollouts) for group in groups.groups)
    noun = "group" if len(groups) == 1 else "groups"
    if nothing_read:
        return (
            "no reply of the model that writes lessons could be used; the next pass asks about"
            f" {len(groups)} {noun} again"
        )
    selection = report.selection
    became = {"published": "published as", "pending": "waits for you as", "unchanged": "the library stays"}
    status = "unchanged" if selection is None else selection.status
    if status == "unchanged" and not report.library.lessons:
        return f"learned from {len(groups)} {noun} of {rollouts} rollouts; no lesson came of it"
    version = report.library.reference if selection is None else f"{report.library.name}@{selection.selected[:12]}"
    lessons = counted_lessons(report.library.lessons)
    return f"learned from {len(groups)} {noun} of {rollouts} rollouts; {became[status]} {version}, {lessons}"
