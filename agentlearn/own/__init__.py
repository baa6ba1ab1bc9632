"""Your own tasks without a package: a file, a reward, and nothing to install.

own_tasks("prices", "number")                       # compare numbers
own_tasks("prices", "my_reward:score")              # a function of yours
own_tasks("prices", "exact", tools="python", instructions="A zork is 7 plims.")
"""

from agentlearn.own.domain import GymTasks, JudgedTasks, OwnTasks, Tools, name_for, own_tasks
from agentlearn.own.reference import load_reference
from agentlearn.own.reward import Reward, default_reward, reward_of

__all__ = [
    "GymTasks",
    "JudgedTasks",
    "OwnTasks",
    "Reward",
    "Tools",
    "default_reward",
    "load_reference",
    "name_for",
    "own_tasks",
    "reward_of",
]
