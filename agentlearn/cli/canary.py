"""`agentlearn library canary`: let a share of episodes read another version, and decide on it by a rule."""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, NotifyOption, StoreOption
from agentlearn.cli.output import print_result
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.command_words import command_words
from agentlearn.errors import ConfigError

if TYPE_CHECKING:
    from agentlearn.live.canary import CanaryDecision, CanaryRisk

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

    Applications take part with `canary=True`. Without an option, the state is shown. Of the canaries that --decide
    rolls back, at most 10 % are not worse, on average; of those that it promotes, at most 10 % are worse by the margin.
    Starting one is your decision, also for a version that waits: it is stored with the name of your account.
    """
    from agentlearn.cli.review import notifying
    from agentlearn.library import LibraryStore
    from agentlearn.library.history.canary import DEFAULT_MARGIN
    from agentlearn.library.shown import share_of
    from agentlearn.live.canary import canary_risk, step_canary
    from agentlearn.views.lesson_origins import find_library

    name, at, _ = reference.partition("@")
    if (share is not None) + stop + decide > 1 or bool(at) != (share is not None) or (dry_run and not share):
        raise ConfigError(
            "give NAME@VERSION with --share 1/10 to start a canary (--dry-run: only say what it would cost), or NAME"
            " with --stop, --decide or nothing",
            code="bad_canary",
        )
    for option, value in (("--margin", margin), ("--effect", effect)):
        if value is not None and not 0 < value <= 1:
            raise ConfigError(
                f"{option} is {value!r}; give a difference in reward above 0, such as 0.05", code="bad_canary"
            )
    libraries = LibraryStore(store / "libraries")
    if share is not None:
        part = share_of(share, "--share", "read the canary")
        if not part:
            raise ConfigError("a canary with the share 0 is none; end it with --stop", code="bad_share")
        library = find_library(store, reference).library
        if dry_run:
            risk = canary_risk(libraries, store, name, share=part, effect=effect, margin=margin or DEFAULT_MARGIN)
            print_result(risk, _risk_lines(name, risk), json=json)
            return
        libraries.history(name).start_canary(library, share=part, margin=margin, note=note)
    elif stop:
        libraries.history(name).end_canary(note=note)
    with notifying(notify if decide else None, store) as alarms:
        decision = step_canary(libraries, store, name, who=None, dry_run=not decide)
        alarms.extend(decision.alarms)
    print_result(decision, _lines(store, decision), json=json)


def _lines(store: Path, found: "CanaryDecision") -> Iterator[str]:
    """The state of a canary, or what was decided."""
    yield found.sentence
    yield from (f"changed:   {one.sentence}" for one in found.alarms)
    if (canary := found.canary) is None:
        return
    command, known = partial(command_words, "library", store=store), found.figures
    again, share = f"{found.library}@{canary.version[:_ID]}", str(_fraction(canary.share))
    if found.outcome == "promote" and found.change is not None:
        yield f"undo it: {command('rollback', f'{found.library}@{canary.baseline[:_ID]}')}"
    elif found.change is not None:
        yield f"undo it: {command('canary', again, '--share', share, '--margin', f'{canary.margin:g}')}"
    else:
        who = f" by {canary.who}" if canary.who else ""
        lacking = f"{known.without_feedback:,} episodes with it and {known.without_feedback_baseline:,} without it"
        worse, no_worse = f"{known.log_e_worse:.1f} of {known.needed_worse:.1f}", f"{known.log_e_no_worse:.1f}"
        yield f"  since        {canary.since:%Y-%m-%d %H:%M}{who}, {share} of episodes, margin {canary.margin:g}"
        yield f"  compared     with {canary.baseline[:_ID]}, in {known.blocks:,} blocks of neighbouring episodes"
        yield f"  no feedback  {lacking}"
        yield f"  evidence     that it is worse: {worse} (logarithms of e-values)"
        yield f"               that it is not, by the margin: {no_worse} of {known.needed_no_worse:.1f}"
        if found.outcome != "collect":
            yield f"decide it: {command('canary', found.library, '--decide')}"
        yield f"end it:    {command('canary', found.library, '--stop')}"


def _fraction(share: float) -> Fraction:
    return Fraction(share).limit_denominator(1_000)


def _risk_lines(name: str, risk: "CanaryRisk") -> Iterator[str]:
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
    yield f"{_fraction(risk.share)} of them with the canary; how many in all, with a probability of 80 %, until"
    yield from (f"  {label.ljust(max(map(len, rows)))}   {words}" for label, words in rows.items())
