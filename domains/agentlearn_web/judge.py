"""The judge of answers in free text: the typed judge of own tasks, with a rubric for answers found on websites.

The answer stands between marks that carry a code which its writer cannot know; an outage, or a reply that is no
verdict twice, leaves the walk undecided.
"""

from agentlearn.domain.custom.judge_reward import JudgeReward
from agentlearn.prompts import Prompt, load_prompt


def judge_prompt() -> Prompt:
    """The rubric."""
    return load_prompt("judge", 1, package="agentlearn_web.prompts")


JUDGE = JudgeReward(rubric=judge_prompt)
"""Judges once a model is given: `JUDGE.with_model(model).judge(task, trajectory)`."""
