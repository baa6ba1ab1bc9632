"""What is known about a comparison before its first call: whether its models can be used and whether it can tell."""

from collections.abc import Sequence
from itertools import count

from agentlearn.errors import ConfigError
from agentlearn.library import LibraryStore
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.observation import Observation
from agentlearn.measure.score_table import tabulate, text_clusters
from agentlearn.models.endpoint import check_endpoint
from agentlearn.rollout.learned_from import LearnedFrom
from agentlearn.store import StoreReader
from agentlearn_evals.flags import find_flags
from agentlearn_evals.plan import ComparePlan
from agentlearn_evals.sequential import SequentialDesign

_MOST_NEEDED = 200
"""Largest number of tasks that is tried as enough for a verdict."""


def check_models(plan: ComparePlan) -> None:
    """Raise ConfigError or MissingExtra when a model that is found by its name cannot be used."""
    for name in plan.models:
        if name not in plan.given.models:
            check_endpoint(name, plan.settings)


def check_verdicts(plan: ComparePlan, reader: StoreReader | None) -> tuple[str, ...]:
    """Return cautions about verdicts that cannot be given. Raises ConfigError when no arm could get one, whatever it
    scores, because what was learned from is measured again.

    reader: the store; None: there is none yet.
    """
    untrusted = {} if reader is None else _untrusted(plan, reader)
    reasons = [untrusted.get(baseline) or untrusted.get(arm) for baseline, arm in plan.pairs]
    if all(reasons):
        compared = ", ".join(dict.fromkeys(repr(arm) for _, arm in plan.pairs))
        raise ConfigError(
            f"Cannot tell anything about {compared}, whatever it scores: {reasons[0]}",
            code="nothing_to_say",
        )
    found = tuple(f"{name} will get no verdict: {why}" for name, why in untrusted.items())
    return (*found, *_too_few(plan))


def _untrusted(plan: ComparePlan, reader: StoreReader) -> dict[str, str]:
    """Return, by arm, why its score will get no verdict and what to do."""
    tasks = [task for task_set in plan.task_sets for task in task_set.tasks]
    known = LearnedFrom(reader, LibraryStore(plan.settings.store / "libraries"))
    flags = {arm.name: find_flags(arm, tasks, reader, known) for arm in plan.arms}
    steps = {
        "learned_from": _held_out_step(plan, reader, known),
        "leaks_answer": "leave those lessons out (,without=ID+ID), or measure it on other tasks",
        "copies_problem": "leave those lessons out (,without=ID+ID), or measure it on other tasks",
    }
    return {name: f"{found[-1].words}; {steps[found[-1].code]}" for name, found in flags.items() if found}


def _held_out_step(plan: ComparePlan, reader: StoreReader, known: LearnedFrom) -> str:
    """Return what to do about tasks that were learned from: the held-out tasks of the latest run that has some."""
    learned = frozenset[str]().union(*(known.tasks(arm.library, arm.without) for arm in plan.arms))
    runs = {run for arm in plan.arms for run in known.runs_behind(arm.library)}
    for run in sorted(runs, key=lambda run: reader.run(run).started_at, reverse=True):
        inputs = reader.run_inputs(run)
        if inputs is not None and inputs.test and not learned & set(inputs.test):
            return f"compare on the {len(inputs.test)} tasks that its run held out: --held-out-of {run}"
    return "measure it on other tasks"


def _too_few(plan: ComparePlan) -> tuple[str, ...]:
    """Return a caution when not even an arm that is always right could be told from a baseline that never is."""
    tasks = [task for task_set in plan.task_sets for task in task_set.tasks]
    labels = text_clusters((task.id, task.cluster, task.problem) for task in tasks)
    clusters = [labels.get(task.id, task.cluster) for task in tasks]
    if _can_tell(plan, clusters):
        return ()
    kinds = len({cluster or f"task {at}" for at, cluster in enumerate(clusters)})
    needed = next((n for n in count(2) if n > _MOST_NEEDED or _can_tell(plan, [""] * n)), _MOST_NEEDED)
    of = "" if kinds == len(clusters) else f" of {kinds} {'family' if kinds == 1 else 'families'}"
    more = "tasks" if not of else "families of tasks"
    words = (
        f"{len(clusters)} {'task' if len(clusters) == 1 else 'tasks'}{of} are too few for any verdict, even if one arm"
        f" were always right and the other never; give at least {needed} {more}"
    )
    return (words,)


def _can_tell(plan: ComparePlan, clusters: Sequence[str]) -> bool:
    """Whether some arm gets a verdict on tasks of these clusters if it is always right and the baseline never."""
    settings, names = plan.settings, [arm.name for arm in plan.arms]
    rules = Rules(
        correction=settings.correction,
        margin=settings.margin,
        planned_looks=settings.planned_looks,
        seed=settings.seed,
        score_range=settings.score_range,
        pairs=plan.pairs,
    )
    low, high = settings.score_range or (0.0, 1.0)
    observations = [
        Observation(arm=name, task=str(at), cluster=cluster, score=low if name == plan.pairs[0][0] else high)
        for at, cluster in enumerate(clusters)
        for name in names
    ]
    table = tabulate(observations, names)
    drafts = estimate_contrasts(table, rules)
    if settings.sequential:
        drafts = SequentialDesign(plan, rules, {}).anytime_contrasts(drafts, table)
    return any(one.verdict != "cannot_tell" for one in with_verdicts(drafts, table, rules))
