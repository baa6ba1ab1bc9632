"""How the simulated reflector makes one list of changes of many: for every learner that has such a step."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from scripts.bench.arena.proxy import Conclusion


def merged(
    proposals: Sequence[tuple[str, Conclusion]], about: Callable[[str], str]
) -> list[tuple[Conclusion, list[str]]]:
    """One change for each subject, the one that most proposals ask for, with their labels; most asked for first."""
    subjects = defaultdict[str, list[tuple[str, Conclusion]]](list)
    for label, change in proposals:
        subjects[about(change[1])].append((label, change))
    made = list[tuple[Conclusion, list[str]]]()
    for same in sorted(subjects.values(), key=len, reverse=True):
        change, _ = Counter(one for _, one in same).most_common(1)[0]
        made.append((change, [label for label, one in same if one == change]))
    return made
