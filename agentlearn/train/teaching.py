"""What the teacher reads: the lessons of a library, chosen and rendered for each task as in any rollout.

A rollout has only one of them, as the sampler's tokens. The other one is made from its text: the agent's instructions
are found in it, and lessons are put after them or taken away, as `Experiences` puts them.

A student that lessons are distilled into can please its teacher by saying less and less (arXiv:2606.11709). So this
module also says when a run must end early.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from agentlearn.errors import ConfigError
from agentlearn.library import LibraryStore
from agentlearn.library.capability import Experiences
from agentlearn.library.retrieval import Retriever
from agentlearn.serving.chat_request import ChatFormat
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.settings import TrainSettings
from agentlearn.types.experience import Library
from agentlearn.types.ids import TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import SampledTokens, Trajectory

_BETWEEN = "\n\n"
"""What pydantic-ai puts between the instructions of an agent and those of its capabilities."""


class _PromptPair(NamedTuple):
    """One prompt in tokens, as the student and as the teacher reads it."""

    student: tuple[int, ...]
    teacher: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RolloutPrompts:
    """Makes both prompts of the answers of one rollout."""

    codec: ChatFormat
    lessons: str
    """The block of advice that the teacher reads for the rollout's task."""
    guided: bool = False
    """Whether the rollout was sampled with it."""

    def pair(self, turn: SampledTokens) -> _PromptPair | None:
        """Return both prompts of an answer; None when the other one cannot be made.

        That is so where the agent has no instructions or its template changes them, and where the tokens of the prompt
        are not those of its text.
        """
        instructions, lessons = turn.instructions.strip(), self.lessons.strip()
        bare = instructions.removesuffix(f"{_BETWEEN}{lessons}") if self.guided else instructions
        if not bare or (self.guided and bare == instructions):
            return None
        text = self.codec.decode(turn.prompt)
        at = text.find(instructions)
        if at < 0 or self.codec.encode(text) != list(turn.prompt):
            return None
        other = bare if self.guided else f"{bare}{_BETWEEN}{lessons}"
        made = tuple(self.codec.encode(text[:at] + other + text[at + len(instructions) :]))
        return _PromptPair(made, turn.prompt) if self.guided else _PromptPair(turn.prompt, made)


@dataclass(slots=True)
class Teaching:
    """The lessons that are distilled, and which rollouts are sampled with them."""

    library: Library
    settings: TrainSettings
    codec: ChatFormat
    _experiences: Experiences = field(init=False)
    _blocks: dict[TaskId, str] = field(init=False, default_factory=dict[TaskId, str])
    """The block of advice of each task so far."""

    def __post_init__(self) -> None:
        retriever = Retriever.in_store(self.settings.retrieval, self.settings.store)
        self._experiences = Experiences(self.library, retrieval=retriever)

    def guides(self, g: int) -> bool:
        """Whether the g-th rollout of a group is sampled with the lessons. These are the last of each group."""
        size = self.settings.group_size
        return g >= size - round(self.settings.gradient.distillation.guided_share * size)

    async def read(self, tasks: Iterable[Task]) -> None:
        """Choose the lessons of these tasks."""
        for task in tasks:
            if task.id not in self._blocks:
                shown = await self._experiences.for_query(task.problem)
                self._blocks[task.id] = shown.get_instructions() or ""

    def prompts(self, trajectory: Trajectory) -> RolloutPrompts:
        """What makes both prompts of a rollout, whose task has been read."""
        return RolloutPrompts(self.codec, self._blocks[trajectory.task], guided=self.guided(trajectory))

    def guided(self, trajectory: Trajectory) -> bool:
        """Whether a rollout was sampled with the lessons."""
        return trajectory.treatment.library == self.library.version


def library_to_distil(settings: TrainSettings, libraries: LibraryStore) -> Library | None:
    """Return the library whose lessons are distilled; None without distillation.

    Raises LibraryError for one that cannot be read, and ConfigError for one without lessons.
    """
    if not settings.distils:
        return None
    library = libraries.load(settings.distill)
    if not len(library):
        raise ConfigError(
            f"the library {settings.distill!r} has no lessons to distil; learn some first: agentlearn learn"
            f" {settings.domain}",
            code="no_lessons",
        )
    return library


ANSWER_TOKENS = "answer_tokens"
"""Metric: mean number of sampled tokens of a rollout without lessons."""
KL = "kl"
ENTROPY = "sampling/entropy"
"""Metric: minus the mean log-probability of all sampled tokens, an estimate of their entropy in nats. It is also known
where nothing is learned."""
LOWEST, HIGHEST, PARTIAL = "reward/min", "reward/max", "reward/partial"
"""Metrics of the rollouts of a batch: lowest and highest reward, and how many are neither 0 nor just enough."""
_COLLAPSED = 0.1
"""Share of the first entropy below which a model without higher rewards has collapsed."""
WINDOW = 3
"""Number of updates that lengths are averaged over."""
HINT_AFTER = 5
"""Number of updates in a row without much to learn from after which a note says so."""
_FEW = 0.1
"""Largest share of groups with different rewards that leaves hardly anything to learn."""


def early_end(figures: Sequence[Mapping[str, float]], arguments: GradientArguments) -> str:
    """Return why the run must end after its last update; empty when it goes on.

    figures: the metrics of all updates so far, in order.
    """
    if not figures:
        return ""
    lengths = [one[ANSWER_TOKENS] for one in figures if ANSWER_TOKENS in one]
    told = arguments.distillation
    if told.stop_at_length and len(lengths) >= 2 * WINDOW:
        first, last = fmean(lengths[:WINDOW]), fmean(lengths[-WINDOW:])
        if last < told.stop_at_length * first:
            return (
                f"answers have shrunk from {first:.0f} to {last:.0f} tokens, below"
                f" {told.stop_at_length:.0%} of their length at the start (stop_at_length)"
            )
    limit, drift = told.stop_at_kl, figures[-1].get(KL, 0.0)
    if limit is not None and drift > limit:
        return f"the divergence from the model at the start is {drift:.3g} nats per token, above stop_at_kl {limit:g}"
    entropy, least = figures[-1].get(ENTROPY), arguments.stop_at_entropy
    if entropy is not None and least is not None and entropy < least:
        return f"the entropy of the sampled tokens is {entropy:.3g} nats, below stop_at_entropy {least:g}"
    if arguments.stop_after_equal is not None and (words := nothing_left(figures, arguments.stop_after_equal)):
        return f"{words} (stop_after_equal)"
    return ""


def collapsed(figures: Sequence[Mapping[str, float]]) -> str:
    """Return in words that the model says the same for everything; empty when it does not, or earns more than at first.

    figures: the metrics of all updates so far, in order.
    """
    known = [one for one in figures if ENTROPY in one and "reward" in one]
    if not known:
        return ""
    first, last = known[0], known[-1]
    all_right = last.get("groups/all_right", 0.0) == last.get("groups")
    if all_right or last[ENTROPY] > _COLLAPSED * first[ENTROPY] or last["reward"] > first["reward"]:
        return ""
    return (
        f"entropy fell from {first[ENTROPY]:.3g} to {last[ENTROPY]:.3g} nats per token, and the mean reward went from"
        f" {first['reward']:.3g} to {last['reward']:.3g}: the model says the same for everything; lower learning_rate"
    )


def every_reward(figures: Sequence[Mapping[str, float]]) -> float | None:
    """Return the reward that every rollout got; None when there are several, or none is known."""
    known = {one[name] for one in figures for name in (LOWEST, HIGHEST) if name in one}
    return known.pop() if len(known) == 1 else None


def nothing_left(figures: Sequence[Mapping[str, float]], updates: int) -> str:
    """Return in words that the last updates had hardly anything to learn from; empty when they had, or are too few."""
    last = figures[-updates:]
    total, mixed, right, wrong = (
        sum(one.get(name, 0.0) for one in last)
        for name in ("groups", "groups/mixed", "groups/all_right", "groups/all_wrong")
    )
    if len(last) < updates or not total or mixed > _FEW * total:
        return ""
    spread = f"{right:.0f} all right, {wrong:.0f} all wrong"
    if any(one.get(PARTIAL) for one in last):  # graded rewards are neither right nor wrong
        known, same = [one for one in last if LOWEST in one], every_reward(last)
        low, high = min(one[LOWEST] for one in known), max(one[HIGHEST] for one in known)
        spread = f"all got {same:g}" if same is not None else f"rewards lie between {low:g} and {high:g}"
    return (
        f"in the last {updates} updates only {mixed:.0f} of {total:.0f} tasks had rollouts with different rewards"
        f" ({spread}), so they leave hardly anything to learn"
    )
