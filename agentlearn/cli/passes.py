"""`agentlearn live`: learn from the traffic of an application, once or again and again."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, LogOption, NotifyOption, YesOption, setting_options
from agentlearn.cli.output import console, print_json, show_logs
from agentlearn.config import LearnSettings, learn_settings
from agentlearn.config.command_words import command_words
from agentlearn.domain.chosen_settings import LEARN_OPTION_NAMES, GivenSettings
from agentlearn.errors import BudgetExceeded, ConfigError, RolloutError
from agentlearn.printing import print_line

if TYPE_CHECKING:
    from agentlearn.cli.progress import LearnProgress
    from agentlearn.live import LivePass

# fmt: off
_OPTIONS = (
    "model", "reflector", "reward", "eval_rollouts", "test_data", "trust", "min_rollouts", "name", "all_wrong",
    "max_cost_usd", "max_tokens", "max_minutes", "max_lessons", "lesson_words", "batch_size", "temperature",
    "concurrency", "max_outage_minutes", "seed", "store",
)
# fmt: on
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_EVERY = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")


@setting_options(LearnSettings, only=_OPTIONS, names=LEARN_OPTION_NAMES)
def live(
    recorder: Annotated[str, Parameter(help="Name of the recorder, such as support for Recorder('support').")],
    /,
    *,
    given: GivenSettings,
    every: Annotated[str, Parameter(help="Time between two passes, such as 30m, 1h or 1d.")] = "1h",
    once: Annotated[bool, Parameter(negative="", show_default=False, help="Make one pass.")] = False,
    budget_usd: Annotated[float | None, Parameter(help="Most dollars that all passes of a day (UTC) may cost.")] = None,
    budget_tokens: Annotated[int | None, Parameter(help="Most tokens that all passes of a day (UTC) may use.")] = None,
    evaluate: Annotated[
        bool,
        Parameter(
            name="--eval", negative="", show_default=False, help="Measure on recorded tasks that have a right answer."
        ),
    ] = False,
    publish_unmeasured: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Publish what --trust allows also where no held-out task measured it. Else it waits for you.",
        ),
    ] = False,
    yes: YesOption = False,
    notify: NotifyOption = None,
    json: JsonOption = False,
    log: LogOption = "warning",
) -> None:
    """Learn from new live traffic with feedback, again and again. What is learned waits for your approval.

    A pass without anything new calls no model. A pass that fails is reported, and the next one goes on with it.
    --max-cost-usd, --max-tokens and --max-minutes limit one pass. --json prints one object per pass.
    """
    from agentlearn.cli.ask import ask_before_spending, require_extras
    from agentlearn.cli.interrupt import run_to_end
    from agentlearn.cli.review import notifying
    from agentlearn.live import LiveLearning

    every_s = _seconds(every)
    fields = {**given.over(), "domain": recorder, "from_store": True} | ({"evaluate": True} if evaluate else {})
    if "model" not in fields:
        raise ConfigError(
            f"no model is named that writes the lessons; name one: agentlearn live {recorder} --model"
            " openai:gpt-5-mini",
            code="no_model",
        )
    for option, limit in (("--budget-usd", budget_usd), ("--budget-tokens", budget_tokens)):
        if limit is not None and limit <= 0:
            raise ConfigError(f"{option} is {limit:g}; give a number above 0, or leave it out", code="out_of_range")
    settings = learn_settings(fields)
    show_logs(log)
    require_extras((settings.model, settings.reflector_name), otel=settings.otel)
    limits = [one for one in (settings.max_cost_usd, budget_usd) if one is not None]
    ask_before_spending(settings.model_copy(update={"max_cost_usd": min(limits)}) if limits else settings, yes=yes)
    learning = LiveLearning(
        settings, budget_usd=budget_usd, budget_tokens=budget_tokens, publish_unmeasured=publish_unmeasured
    )
    begun = failed = 0
    with learning.held():
        while True:
            progress = _progress(learning.settings, to_stderr=json)
            with notifying(notify, settings.store) as alarms:
                done = run_to_end(lambda shown=progress: learning.run_pass(shown), progress, name="pass")
                alarms.extend(done.alarms)
            begun, failed = begun + 1, failed + (done.outcome == "failed")
            if json:
                print_json(done.model_dump(mode="json", exclude={"marks", "left"}))
            for line in () if json else _lines(done, settings, failed, begun):
                print_line(line)
            if once:
                _refuse_success(done)
                return
            if not json:
                again = datetime.now(UTC).astimezone() + timedelta(seconds=every_s)
                print_line(f"          the next pass begins at {again:%Y-%m-%d %H:%M:%S}; Ctrl-C ends")
            time.sleep(every_s)


def _progress(settings: LearnSettings, *, to_stderr: bool) -> "LearnProgress":
    """The progress of the run of a pass."""
    from agentlearn.cli.progress import LearnProgress

    class PassProgress(LearnProgress):
        def how_to_go_on(self) -> str:
            if self.call_context is None or self.finished:
                return ""
            command = command_words("live", settings.domain, "--model", settings.model, store=settings.store)
            return self.labelled("go on", f"the next pass resumes the run: {command}")

    return PassProgress(settings, console(to_stderr=to_stderr))


def _seconds(every: str) -> float:
    found = _EVERY.fullmatch(every.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 1 <= seconds <= 366 * _UNITS["d"]:
        raise ConfigError(
            f"--every is {every!r}; give a number with s, m, h or d, such as 30m, 1h or 1d",
            code="bad_every",
        )
    return seconds


def _lines(done: "LivePass", settings: LearnSettings, failed: int, begun: int) -> list[str]:
    """A pass as lines. failed, begun: passes of this process that failed, and all of them."""
    status = "failed: " if done.outcome == "failed" else ""
    lines = [f"{f'pass {done.number}':<10}{status}{done.words}"]
    if done.tokens:
        price = "an unknown price" if done.cost_usd is None else f"${done.cost_usd:.4f}"
        lines.append(f"          {price} for {done.tokens:,} tokens")
    if done.outcome == "learned" and not done.measured:
        lines.append("          not measured: no held-out task has a right answer, or --eval was not given")
    lines += [f"          canary: {done.canary}"] if done.canary else []
    lines += [f"          changed: {one.sentence}" for one in done.alarms]
    if done.waiting:
        command = command_words("review", store=settings.store)
        lines.append(f"          {done.waiting} waiting for your decision: {command}")
    if failed:
        lines.append(f"          {failed} of {begun} passes failed since the start")
    return lines


def _refuse_success(done: "LivePass") -> None:
    """Raise the error of the only pass, so that a command that learned nothing does not succeed."""
    if done.outcome == "over_budget":
        raise BudgetExceeded(done.words)
    if done.outcome == "failed":
        raise RolloutError(f"the pass failed: {done.words}", code=done.code)
