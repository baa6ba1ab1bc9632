"""The reward `gym`: tasks of reasoning-gym, scored by their own scorers, partial credit included."""

from dataclasses import dataclass, replace

from agentlearn.domain.custom.scoring import ScoringProcess
from agentlearn.errors import VerifierError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict


@dataclass(frozen=True, slots=True)
class GymReward:
    """Judges in another process; `scorer` is given by the run."""

    scorer: ScoringProcess | None = None
    name = "gym"
    form = "The answer has the form that the task asks for."
    needs_gold = False

    def with_scorer(self, scorer: ScoringProcess) -> "GymReward":
        """The same reward with a process to ask."""
        return replace(self, scorer=scorer)

    def gold(self, text: str) -> str:
        """The expected answer as it stands; the scorer knows how to read it."""
        return text.strip()

    async def judge(self, task: Task, trajectory: Trajectory) -> Verdict:
        """The scorer's verdict. Raises VerifierError when it gives none; such a rollout is undecided, never wrong."""
        if self.scorer is None:
            raise VerifierError("the reward 'gym' has no scoring process; judge inside `domain.running()`")
        if trajectory.answer is None or not trajectory.answer.strip():
            return Verdict(status="no_answer", reward=0.0, reason="no answer")
        score = await self.scorer.score(task.source, trajectory.answer)
        status = "correct" if score == 1 else "partial" if score > 0 else "incorrect"
        return Verdict(status=status, reward=score, reason=f"scored {score:g} by the task's own scorer")

    def answer_key(self, answer: str) -> str | None:
        """None: a scorer says what an answer is worth, not whether two answers are the same."""
        return None


GYM_REWARD = GymReward()
