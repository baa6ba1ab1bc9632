"""The learning curve: scores of the versions of one library, from the first to the last."""

from collections.abc import Mapping, Sequence

from agentlearn.measure.score_table import ScoreTable
from agentlearn.types.experience import Library
from agentlearn.types.ids import LibraryVersion
from agentlearn_evals.arms import Arm
from agentlearn_evals.breakdown import arm_score
from agentlearn_evals.comparison import VersionPoint

_LEVEL = 0.95


def learning_curve(arms: Sequence[Arm], table: ScoreTable) -> tuple[VersionPoint, ...]:
    """Return the longest line of arms whose libraries descend from one another; empty for fewer than two."""
    libraries = {arm.library.version: arm for arm in arms if len(arm.library) and not arm.without}
    roots = [arm for arm in libraries.values() if arm.library.parent not in libraries]
    longest = max((_descendants(root.library, libraries) for root in roots), key=len, default=[])
    if len(longest) < 2:
        return ()
    points: list[VersionPoint] = []
    for step, arm in enumerate(longest):
        interval = arm_score(table, arm.name, _LEVEL)
        points.append(
            VersionPoint(
                arm=arm.name,
                version=arm.library.version,
                step=step,
                lessons=len(arm.library),
                score=interval.mean,
                low=interval.low,
                high=interval.high,
            )
        )
    return tuple(points)


def _descendants(library: Library, libraries: Mapping[LibraryVersion, Arm]) -> list[Arm]:
    line = [libraries[library.version]]
    while following := [arm for arm in libraries.values() if arm.library.parent == line[-1].library.version]:
        line.append(following[0])
    return line
