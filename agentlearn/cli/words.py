"""Numbers as people read them: scores, differences, counts and durations."""

from agentlearn.text import number_text


def score_words(value: float | None) -> str:
    """A score with two decimals, or more where it would look like 0 or 1 and is not; `-` when there is none."""
    return "-" if value is None else number_text(value)


def change_words(mean: float | None, ci: tuple[float, float] | None, p: float | None = None) -> str:
    """A difference with its interval and its p-value, as far as they are known."""
    interval = "" if ci is None else f" [{number_text(ci[0], sign=True)}, {number_text(ci[1], sign=True)}]"
    chance = "" if p is None else f"   p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"
    return ("-" if mean is None else number_text(mean, sign=True)) + interval + chance


def count_words(number: int, noun: str) -> str:
    """A number with its noun in the singular or plural: `1 task`, `2 families`."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def proposal_words(applied: int, merged: int, unused: int, refused: int, waiting: int = 0) -> str:
    """How the proposals of a batch, an epoch or a run ended. waiting: those that wait for a person."""
    quarantined = f", {waiting} quarantined" if waiting else ""
    return f"proposals: {applied} applied, {merged} merged into them, {unused} not used, {refused} refused{quarantined}"


def made_words(drawn: int, planned: int, skipped: int) -> str:
    """How many of the planned rollouts were made, and how many visits were skipped; empty when all were made."""
    if drawn >= planned:
        return ""
    left_out = f"   skipped {count_words(skipped, 'task')} that were all right when last seen" if skipped else ""
    return f"{drawn:,} of {planned:,} planned rollouts{left_out}"


def clock_time(seconds: float) -> str:
    """A duration as minutes and seconds, with hours if there are any: `00:09`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
