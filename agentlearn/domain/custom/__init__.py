"""Your own tasks without a package: a file, a reward, and nothing to install.

custom_tasks("prices", "number")                       # compare numbers
custom_tasks("prices", "my_reward:score")              # a function of yours
custom_tasks("prices", "exact", tools="python", instructions="A zork is 7 plims.")
"""

from agentlearn.domain.custom.own_functions import load_object
from agentlearn.domain.custom.reward import Reward, default_reward, find_reward
from agentlearn.domain.custom.task_domain import (
    CustomTasks,
    GymTasks,
    JudgedTasks,
    Tools,
    custom_tasks,
    judged_tasks,
    name_for,
)

__all__ = [
    "CustomTasks",
    "GymTasks",
    "JudgedTasks",
    "Reward",
    "Tools",
    "custom_tasks",
    "default_reward",
    "find_reward",
    "judged_tasks",
    "load_object",
    "name_for",
]
