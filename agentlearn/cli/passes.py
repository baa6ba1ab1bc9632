"""Production: `agentlearn live` learns from traffic, `library canary` tries a version on a share of it."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from agentlearn.cli.options import JsonOption, LogOption, NotifyOption, StoreOption, YesOption, setting_options
from agentlearn.cli.output import console, print_json, print_result, show_logs
from agentlearn.config import DEFAULT_STORE, LEARN_OPTION_NAMES, GivenSettings, LearnSettings, learn_settings
from agentlearn.config.defaults import command_words
from agentlearn.errors import BudgetExceeded, ConfigError, RolloutError
from agentlearn.text.printing import print_line

if TYPE_CHECKING:
    from agentlearn.cli.progress import LearnProgress
    from agentlearn.live.canary import CanaryDecision, CanaryRisk
    from agentlearn.live.passes import LivePass

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
    from agentlearn.cli.interrupt import run_to_end
    from agentlearn.cli.options import ask_before_spending, require_extras
    from agentlearn.cli.review import notifying
    from agentlearn.live.passes import LiveLearning

    every_s = _seconds(every)
    fields = {**given.over(), "domain": recorder, "from_store": True} | ({"evaluate": True} if evaluate else {})
    if not recorder.strip():
        raise ConfigError("RECORDER is empty; give the name of the recorder, as in Recorder('support')")
    for option, limit in (("--budget-usd", budget_usd), ("--budget-tokens", budget_tokens)):
        if limit is not None and limit <= 0:
            raise ConfigError(f"{option} is {limit:g}; give a number above 0, or leave it out")
    settings = learn_settings(fields)
    if "model" not in fields:
        raise ConfigError(
            f"no model is named that writes the lessons; name one: agentlearn live {recorder} --model openai:gpt-5-mini"
        )
    show_logs(log)
    require_extras((settings.model, settings.reflector_name), otel=settings.otel)
    learning = LiveLearning(
        settings, budget_usd=budget_usd, budget_tokens=budget_tokens, publish_unmeasured=publish_unmeasured
    )
    limits = [one for one in (settings.max_cost_usd, budget_usd) if one is not None]
    ask_before_spending(settings.model_copy(update={"max_cost_usd": min(limits)}) if limits else settings, yes=yes)
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
        def heading(self) -> str:
            return command_words("live", settings.domain, "--model", settings.model, store=settings.store)

        def how_to_go_on(self) -> str:
            if self.call_context is None or self.finished:
                return ""
            return self.labelled("go on", f"the next pass resumes the run: {self.heading()}")

    return PassProgress(settings, console(to_stderr=to_stderr))


def _seconds(every: str) -> float:
    found = _EVERY.fullmatch(every.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 1 <= seconds <= 366 * _UNITS["d"]:
        raise ConfigError(f"--every is {every!r}; give a number with s, m, h or d, such as 30m, 1h or 1d")
    return seconds


def _lines(done: "LivePass", settings: LearnSettings, failed: int, begun: int) -> list[str]:
    """A pass as lines. failed, begun: passes of this process that failed, and all of them."""
    from agentlearn.pages.figure import price_words

    status = "failed: " if done.outcome == "failed" else ""
    lines = [f"{f'pass {done.number}':<10}{status}{done.words}"]
    if done.tokens:
        lines.append(f"          {price_words(done.cost_usd)} for {done.tokens:,} tokens")
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


_ID = 12


def library_canary(
    reference: Annotated[str, Parameter(help="NAME; to start, NAME@VERSION, which may also wait for a decision.")],
    /,
    *,
    share: Annotated[str | None, Parameter(help="Share of episodes that read the version, such as 1/10.")] = None,
    margin: Annotated[
        float | None,
        Parameter(help="By how much the mean reward may be lower, at most, for it to be promoted. [default: 0.02]"),
    ] = None,
    feedback_days: Annotated[
        float | None,
        Parameter(help="Days to wait for feedback. [default: as it came so far, else 7]", validator=Number(gte=0)),
    ] = None,
    lesson: Annotated[
        str, Parameter(help="Of a version that waits, the only new lesson to try. [default: all, judged as one]")
    ] = "",
    stop: Annotated[bool, Parameter(negative="", show_default=False, help="End the canary.")] = False,
    decide: Annotated[
        bool, Parameter(negative="", show_default=False, help="Promote it or roll it back, if its feedback allows it.")
    ] = False,
    dry_run: Annotated[
        bool, Parameter(negative="", show_default=False, help="With --share, say what it would cost; change nothing.")
    ] = False,
    effect: Annotated[
        float, Parameter(help="With --dry-run: the difference in mean reward to be found; 0.1 is 10 points.")
    ] = 0.1,
    note: Annotated[str, Parameter(help="A remark that is stored with the change.")] = "",
    notify: NotifyOption = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Let a share of episodes read another version of a library, and show what their feedback says.

    NAME@X is a version, or the id of what waits: the version that approving it would make. Applications take part with
    `canary=True`. Without an option, the state is shown. Of the canaries that --decide rolls back, at most 10 % are not
    worse, on average; of those that it promotes, at most 10 % are worse by the margin. Starting one is your decision,
    also for what waits: it is stored with the name of your account.
    """
    from agentlearn.cli.review import notifying
    from agentlearn.library import LibraryStore
    from agentlearn.library.history.canary import DEFAULT_MARGIN
    from agentlearn.library.shown import share_of
    from agentlearn.live.canary import canary_risk, step_canary
    from agentlearn.pages.lesson_origins import version_to_try

    name, at, _ = reference.partition("@")
    part = share_of(share, "--share", "read the canary")
    if share is not None and not at:
        log = command_words("library", "log", name, store=store)
        raise ConfigError(
            f"say which version of {name!r} to try: {name}@VERSION, one that `{log}` lists, with --share {share}"
        )
    if (
        (share is not None) + stop + decide > 1
        or bool(at) != (share is not None)
        or ((dry_run or lesson) and not share)
    ):
        raise ConfigError(
            "give NAME@VERSION with --share 1/10 to start a canary (--dry-run: only say what it would cost; --lesson:"
            " try one new lesson alone), or NAME with --stop, --decide or nothing"
        )
    for option, value in (("--margin", margin), ("--effect", effect)):
        if value is not None and not 0 < value <= 1:
            raise ConfigError(f"{option} is {value!r}; give a difference in reward above 0, such as 0.05")
    libraries = LibraryStore(store / "libraries")
    if share is not None:
        if not part:
            raise ConfigError("a canary with the share 0 is none; end it with --stop")
        library = version_to_try(store, reference, lesson)
        if dry_run:
            risk = canary_risk(libraries, store, name, share=part, effect=effect, margin=margin or DEFAULT_MARGIN)
            print_result(risk, _risk_lines(name, risk), json=json)
            return
        history = libraries.history(name)
        history.start_canary(library, share=part, margin=margin, note=note, feedback_days=feedback_days)
    elif stop:
        libraries.history(name).end_canary(note=note)
    with notifying(notify if decide else None, store) as alarms:
        decision = step_canary(libraries, store, name, who=None, dry_run=not decide)
        alarms.extend(decision.alarms)
    print_result(decision, _canary_lines(store, decision), json=json)


def _canary_lines(store: Path, found: "CanaryDecision") -> Iterator[str]:
    """The state of a canary, or what was decided."""
    from agentlearn.pages.lesson_origins import canary_facts, share_words

    yield found.sentence
    yield from (f"changed:   {one.sentence}" for one in found.alarms)
    if (canary := found.canary) is None:
        return
    command, again = partial(command_words, "library", store=store), f"{found.library}@{canary.version[:_ID]}"
    if found.outcome == "promote" and found.change is not None:
        yield f"undo it: {command('rollback', f'{found.library}@{canary.baseline[:_ID]}')}"
    elif found.change is not None:
        options = ("--share", share_words(canary.share), "--margin", f"{canary.margin:g}")
        yield f"undo it: {command('canary', again, *options)}"
    else:
        yield from (f"  {label:13}{words}" for label, words in canary_facts(canary, found.figures))
        if found.outcome != "collect":
            yield f"decide it: {command('canary', found.library, '--decide')}"
        yield f"end it:    {command('canary', found.library, '--stop')}"


def _risk_lines(name: str, risk: "CanaryRisk") -> Iterator[str]:
    from agentlearn.pages.lesson_origins import share_words

    def one_of(after: int | None) -> str:
        days = f" ({after / risk.per_day:,.0f} days)" if after is not None and risk.per_day else ""
        return "more than were simulated" if after is None else f"{after:,}{days}"

    def episodes(after: tuple[int | None, int | None]) -> str:
        return one_of(after[0]) if after[1] is None else f"{one_of(after[0])}, or {one_of(after[1])} with 90 %"

    measured = f"{risk.recorded:,} recorded episodes of {name}" if risk.recorded else "nothing recorded, so assumed"
    yield f"simulated episodes: mean reward {risk.level:.2f}, feedback on {risk.feedback:.0%} ({measured})"
    points, lost = f"{100 * risk.effect:g} points", [f"{one:,.0f}" for one in risk.lost if one is not None]
    rows = {
        f"{points} worse: rolled back": episodes(risk.found_after),
        "reward lost until then": ", or ".join(lost) + (" with 90 %" if len(lost) > 1 else "" if lost else "not known"),
        f"{points} better: promoted": episodes(risk.promoted_after),
        "no difference: promoted": episodes(risk.same_promoted_after),
    }
    yield f"{share_words(risk.share)} of them with the canary; how many in all, with a probability of 80 %, until"
    yield from (f"  {label.ljust(max(map(len, rows)))}   {words}" for label, words in rows.items())
