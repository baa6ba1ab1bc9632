"""Progress of a learn run: what it runs on, a line per epoch, and the result."""

import shlex
import time
from collections.abc import Callable
from typing import Self

from rich.console import Console

from agentlearn.cli.live import ProgressLines, Traffic
from agentlearn.cli.output import console
from agentlearn.config import SIMULATED_MODEL, LearnSettings, default_model, is_lab
from agentlearn.config.defaults import python_words
from agentlearn.learning.batch import Allocation
from agentlearn.learning.callbacks import Callbacks, RolledBack, Update
from agentlearn.learning.costs import estimate, measured_size
from agentlearn.learning.lessons.run_learning import start_words
from agentlearn.learning.open_run import TaskSize
from agentlearn.learning.report import EpochLine, LearnReport
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.services import found_models
from agentlearn.pages.figure import clock_time, count_words, proposal_words, score_words
from agentlearn.pages.runs import learn_end
from agentlearn.types.experience import Library
from agentlearn.types.task import Task
from agentlearn.types.trajectory import TRIAL


class LearnProgress(ProgressLines, Callbacks):
    """Prints lines as the run goes on; on a terminal, also a live view below them, updated four times a second."""

    command = "learn"

    def __init__(
        self,
        settings: LearnSettings,
        out: Console,
        clock: Callable[[], float] = time.monotonic,
        *,
        python: bool = False,
    ) -> None:
        """python: whether a program called `learn`, so that lines name its arguments in place of options."""
        super().__init__(settings, out, clock)
        self.settings, self.python = settings, python
        # Before the run opens the store: while it is open, this process cannot read it a second time.
        self._measured = measured_size(settings.as_pilot(), tasks=settings.limit or 60)

    @classmethod
    def in_python(cls, settings: LearnSettings) -> Self:
        """Return the progress of a run that a program started, on stderr."""
        return cls(settings, console(to_stderr=True), python=True)

    def line(self, label: str, text: str) -> None:
        super().line(label, python_words(text, LearnSettings) if self.python else text)

    def heading(self) -> str:
        """The first line: what is being done."""
        settings = self.settings
        if self.python:
            return f"learn {settings.domain}"
        usual = settings.agent is not None or settings.model in (SIMULATED_MODEL, default_model(settings.domain))
        return learn_command(settings) if usual else f"{learn_command(settings)} --model {shlex.quote(settings.model)}"

    def how_to_go_on(self) -> str:
        if not self.python or self.finished or self.call_context is None:
            return super().how_to_go_on()
        raised = python_words(self.raised().lstrip(), LearnSettings)
        return self.labelled("resume", f"the same call with resume={self.call_context.run!r}{raised and ', '}{raised}")

    def raised(self) -> str:
        """The option that raises the limit the run reached. Minutes need none: each start counts its own."""
        reached = None if self.call_context is None else self.call_context.budget.reached
        match reached:
            case "max_tokens":
                return f" --max-tokens MORE   (MORE: above {self.settings.max_tokens:,}, for all starts together)"
            case "max_cost_usd":
                return f" --max-cost-usd MORE   (MORE: above {self.settings.max_cost_usd:g}, for all starts together)"
            case "max_minutes" | None:
                return ""

    def opened(
        self,
        call_context: CallContext,
        endpoint: Endpoint,
        reflector: Endpoint,
        train: tuple[Task, ...],
        test: tuple[Task, ...],
    ) -> None:
        self.call_context = call_context
        endpoint_states = tuple({id(one.endpoint_state): one.endpoint_state for one in (endpoint, reflector)}.values())
        counts = {"train": len(train), "test": len(test)}
        expected = estimate(self.settings, **counts, size=self._measured, task=TaskSize.of(train))
        simulated = endpoint.simulated and reflector.simulated
        self.view.traffic = Traffic(call_context, endpoint_states, simulated, expected)
        self.out.print(self.heading())
        self.line("model", _model_words(endpoint))
        if reflector.endpoint_state is not endpoint.endpoint_state:
            self.line("reflector", _model_words(reflector))
        sent = endpoint.call_settings.added.get("max_tokens")
        if sent is not None and self.settings.max_output_tokens is None:
            changed = "--max-output-tokens changes it, and answers that are cut are counted"
            self.line("answers", f"at most {sent:,} tokens each; {changed}")
        if (endpoint.simulated or is_lab(endpoint.name)) and not self.python:
            self._suggest_models(endpoint, len(train), len(test))
        self.view.clusters = {task.id: task.cluster for task in (*train, *test)}
        known = {task.family for task in train}
        unseen = sum(task.family not in known for task in test)
        families = f" ({unseen} of them in unseen families)" if unseen else ""
        held = f"{len(test)} held out{families}" if test else "none held out"
        epochs = self.settings.as_pilot().epochs
        first, most = Allocation.of(self.settings).first_wave, self.settings.group_size
        rollouts = f"{f'{first} to ' if first < most else ''}{count_words(most, 'rollout')}"
        each = "stored rollouts" if self.settings.from_store else f"{rollouts} each"
        shape = f"{each} · {count_words(epochs, 'epoch')}"
        self.line("tasks", f"{len(train)} to learn from, {held} · {shape}")
        self.line("run", call_context.run)

    def starts_from(self, start: Library) -> None:
        if words := start_words(self.settings, start):
            self.line("start", words)

    def _suggest_models(self, endpoint: Endpoint, train: int, test: int) -> None:
        """Name real models that could be used instead, with their price."""
        if self.settings.reward is not None:
            self.line("note", f"{endpoint.name} solves only problems in the words of the bundled ones")
        for found in found_models():
            other = self.settings.model_copy(update={"model": found.endpoint, "reflector": None})
            price = f"   ({estimate(other, train=train, test=test).short()}; asks first)" if found.paid else ""
            self.line("", f"found {found.why}: {learn_command(self.settings)} --model {found.endpoint}{price}")

    def phase_started(self, phase: str, rollouts: int) -> None:
        number = phase.removeprefix("epoch-")
        label = phase if number == phase else f"epoch {number}/{self.settings.as_pilot().epochs}"
        if (kind := phase.partition(":")[0]) in ("validation", TRIAL):
            label = kind
        self.view.start_phase(phase, label.replace("+", " and "), rollouts)

    def updated(self, step: str, update: Update) -> None:
        self.view.add_update(update)
        if isinstance(update.outcome, RolledBack):
            self.line("back", f"{update.outcome.reason}, so the run goes on from it")
        for note in update.evidence.notes:
            self.line("note", note)

    def epoch_done(self, line: EpochLine) -> None:
        mixed, groups = line.groups.get("mixed", 0), sum(line.groups.values())
        label = f"epoch {line.epoch}/{self.settings.as_pilot().epochs}"
        if not groups:
            self.line(label, "skipped: most tasks were all right when last seen")
            return
        wrong = f", always wrong and taught: {line.taught_wrong}" if line.taught_wrong else ""
        self.line(
            label,
            f"reward {score_words(line.reward)}   {count_words(line.lessons, 'lesson')}   "
            f"{mixed} of {groups} tasks had both right and wrong rollouts{wrong}   {clock_time(line.seconds)}",
        )
        planned = 0 if self.settings.from_store else (groups + line.skipped) * self.settings.group_size
        if words := _made_words(line.drawn, planned, line.skipped):
            self.line("", words)
        self.line("", proposal_words(line.applied, line.folded, line.dropped, line.rejected, line.quarantined))

    def done(self, report: LearnReport) -> None:
        self.print_end(report.run, learn_end(report, self.store))


def _made_words(drawn: int, planned: int, skipped: int) -> str:
    """How many of the planned rollouts were made, and how many visits were skipped; empty when all were made."""
    if drawn >= planned:
        return ""
    left_out = f"   skipped {count_words(skipped, 'task')} that were all right when last seen" if skipped else ""
    return f"{drawn:,} of {planned:,} planned rollouts{left_out}"


def _model_words(endpoint: Endpoint) -> str:
    """An endpoint with a clear mark when it is simulated or a lab model."""
    if endpoint.simulated:
        return (
            f"{endpoint.name}, a simulated model with the solver's list of habits built in:"
            " this run shows how learning works, it is not a result"
        )
    if is_lab(endpoint.name):
        return (
            f"{endpoint.name}, a real but tiny transformer that has learned to read lessons on 11 habits only:"
            " this run shows how learning works, not real skill"
        )
    replicas = endpoint.endpoint_state.replicas
    return endpoint.name if replicas is None else f"{endpoint.name}, at {len(replicas.all)} endpoints"


def learn_command(settings: LearnSettings) -> str:
    """The command that learns from the same tasks with the same reward."""
    if settings.agent is not None:
        given = [settings.agent, settings.data or "", "--reward", settings.reward or ""]
        given += [] if settings.deps is None else ["--deps", settings.deps]
    elif settings.reward is None or settings.data is None:
        given = [settings.domain, *(["--data", settings.data] if settings.data is not None else [])]
    else:
        given = [settings.data, "--reward", settings.reward]
        if settings.tools != "none":
            given += ["--tools", settings.tools]
    if settings.columns is not None:
        given += ["--columns", settings.columns]
    return shlex.join(["agentlearn", "learn", *given])
