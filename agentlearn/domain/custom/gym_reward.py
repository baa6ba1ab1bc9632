"""The reward `gym`: reasoning-gym's own scorers judge its tasks, with partial credit."""

from dataclasses import dataclass, replace

from agentlearn.domain.custom.scoring import ScoringProcess
from agentlearn.errors import VerifierError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict


@dataclass(frozen=True, slots=True)
class GymReward:
    """Judges in a separate process. The run sets `scorer`."""

    scorer: ScoringProcess | None = None
    name = "gym"
    form = "The answer has the form that the task asks for."
    needs_gold = False

    def with_scorer(self, scorer: ScoringProcess) -> "GymReward":
        """Return the same reward with a scoring process."""
        return replace(self, scorer=scorer)

    def gold(self, text: str) -> str:
        """Return the text as it is; the scorer knows how to read it."""
        return text.strip()

    async def judge(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Return the scorer's verdict. Raises VerifierError when there is no score: the rollout is then undecided, not
        wrong.
        """
        if self.scorer is None:
            raise VerifierError("the reward 'gym' has no scoring process; judge inside `domain.running()`")
        if trajectory.answer is None or not trajectory.answer.strip():
            return Verdict(status="no_answer", reward=0.0)
        score = await self.scorer.score(task.source, trajectory.answer)
        status = "correct" if score == 1 else "partial" if score > 0 else "incorrect"
        return Verdict(status=status, reward=score)

    def answer_key(self, answer: str) -> str | None:
        """Return None: a scorer rates one answer and does not compare two."""
        return None


GYM_REWARD = GymReward()
