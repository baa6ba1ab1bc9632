"""The judge of free-text answers, with a rubric for answers found on websites.

The answer is put between marks with a code that its writer cannot know. If the judge is unavailable, or replies twice
without a valid verdict, the walk stays undecided.
"""

from agentlearn.domain.custom.judge_reward import JudgeReward
from agentlearn.prompts import Prompt, load_prompt


def web_judge_prompt() -> Prompt:
    """Return the judge's rubric."""
    return load_prompt("judge", 1, package="agentlearn_web.prompts")


JUDGE = JudgeReward(rubric=web_judge_prompt)
"""Needs a model first: `JUDGE.with_model(model).judge(task, trajectory)`."""
