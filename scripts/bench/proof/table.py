"""The results of the proof: what each kind of tasks gained, with agentlearn's statistics, as one Markdown table.

The unit of every test is a held-out task. A family of tests is one question over all kinds, corrected by Holm.
"""

from collections.abc import Mapping, Sequence

from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import Rules, estimate_contrasts, verdicts_over_tables
from agentlearn.measure.score_table import ScoreTable, tabulate
from agentlearn.types.value import Value
from scripts.bench.proof.kinds import KINDS
from scripts.bench.proof.measuring import READING, Cell, Phase


class Learned(Value):
    """What `learn` with a real reflector gave for one kind and seed."""

    kind: str
    seed: int
    reflector: str
    lessons: tuple[str, ...]
    calls: int
    refused: dict[str, int]
    """Number of proposals that were not applied, by reason."""
    wall_s: float


class Result(Value):
    """Everything that one call of `just proof` measured."""

    reader: str
    reflector: str = ""
    seeds: tuple[int, ...]
    held_out: int
    cells: tuple[Cell, ...]
    learned: tuple[Learned, ...] = ()
    speed: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that were measured, in their order."""
        return tuple(one.name for one in KINDS if any(cell.kind == one.name for cell in self.cells))

    def of(self, kind: str, phase: Phase) -> list[Cell]:
        """The cells of a kind in one phase, by seed."""
        return [cell for cell in self.cells if (cell.kind, cell.phase) == (kind, phase)]

    def both(self, kind: str, first: Phase, second: Phase) -> list[tuple[Cell, Cell]]:
        """The cells of two phases on the seeds that have both."""
        others = {cell.seed: cell for cell in self.of(kind, second)}
        return [(cell, others[cell.seed]) for cell in self.of(kind, first) if cell.seed in others]

    def family(self, arm: Phase, baseline: Phase) -> Mapping[str, Contrast]:
        """Compare two phases on the seeds that have both, for every kind; corrected over the kinds."""
        drafts, names = list[tuple[Contrast, ScoreTable]](), list[str]()
        rules = Rules(pairs=((baseline, arm),))
        for kind in self.kinds:
            pairs = self.both(kind, baseline, arm)
            if not pairs:
                continue
            cells = [cell for pair in pairs for cell in pair]
            table = tabulate([one for cell in cells for one in cell.observations()], (baseline, arm))
            drafts += [(one, table) for one in estimate_contrasts(table, rules)]
            names.append(kind)
        return dict(zip(names, verdicts_over_tables(drafts, rules), strict=True))


def as_markdown(found: Result) -> str:
    """Return the tables of reading and of writing."""
    seeds = ", ".join(map(str, found.seeds))
    parts = [f"{found.reader}, seeds {seeds}, {found.held_out} held-out tasks for each kind and seed, greedy.", ""]
    parts += _reading(found)
    if found.learned:
        parts += ["", *_writing(found)]
    if found.speed:
        parts += ["", found.speed]
    return "\n".join(parts) + "\n"


def _reading(found: Result) -> list[str]:
    gains, harms = found.family("on", "off"), found.family("wrong", "on")
    placebo, history = found.family("on", "placebo"), found.family("on", "history")
    head = ("kind", *READING[:4], "on − off", *READING[4:], "wrong rule followed")
    lines = [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
    ]
    for kind in found.kinds:
        means = [_mean(found.of(kind, phase)) for phase in READING]
        followed = [one for cell in found.of(kind, "wrong") for one in cell.followed_wrong]
        lines.append(
            f"| `{kind}` | {' | '.join(means[:4])} | {_words(gains.get(kind))} | {means[4]} | {means[5]} | {means[6]} |"
            f" {sum(followed)} of {len(followed)} |"
        )
    flips = f"off {_flips(found, 'off', 'off again')}, on {_flips(found, 'on', 'on again')}"
    lines += [
        "",
        f"- Better with the right lesson (Holm over {len(gains)} kinds): {_verdicts(gains, 'better')}.",
        f"- The right lesson is better than a placebo: {_verdicts(placebo, 'better')}.",
        f"- It is better than raw history: {_verdicts(history, 'better')}; worse: {_verdicts(history, 'worse')}.",
        f"- A wrong lesson is worse than the right one: {_verdicts(harms, 'worse')}.",
        f"- Replies that differ between the two passes: {flips}.",
        f"- Undecided rollouts: {sum(cell.undecided for cell in found.cells)}.",
    ]
    return lines


def _writing(found: Result) -> list[str]:
    gains = found.family("own", "off")
    lines = [
        f"Lessons written by {found.reflector}, read by {found.reader}:",
        "",
        "| kind | no lesson | its own | own − none | by a person, right | by a person, wrong | what it wrote |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(one.kind for one in found.learned):
        written = [one for one in found.learned if one.kind == kind]
        said = "<br>".join(f"{one.seed}: " + ("; ".join(one.lessons) or "nothing") for one in written)
        seeds = {one.seed for one in written}
        own, off, on, wrong = (
            _mean([cell for cell in found.of(kind, phase) if cell.seed in seeds])
            for phase in ("own", "off", "on", "wrong")
        )
        lines.append(f"| `{kind}` | {off} | {own} | {_words(gains.get(kind))} | {on} | {wrong} | {said} |")
    return [*lines, "", f"- Better with its own lessons (Holm over {len(gains)} kinds): {_verdicts(gains, 'better')}."]


def _mean(cells: Sequence[Cell]) -> str:
    return f"{sum(cell.score for cell in cells) / len(cells):.2f}" if cells else "–"


def _words(contrast: Contrast | None) -> str:
    if contrast is None or contrast.mean is None:
        return "–"
    interval = "" if contrast.low is None or contrast.high is None else f" [{contrast.low:+.2f}, {contrast.high:+.2f}]"
    words = f"{contrast.mean:+.2f}{interval}"
    return f"**{words}**" if contrast.verdict in {"better", "worse"} else words


def _verdicts(family: Mapping[str, Contrast], verdict: str) -> str:
    return f"{sum(one.verdict == verdict for one in family.values())} of {len(family)}"


def _flips(found: Result, first: Phase, again: Phase) -> str:
    pairs = [
        (one, two)
        for kind in found.kinds
        for before, after in found.both(kind, first, again)
        for one, two in zip(before.replies, after.replies, strict=True)
    ]
    return f"{sum(one != two for one, two in pairs)} of {len(pairs)}"
