"""Domains made from objects of a program: its agent or function, its tasks, its reward."""

from agentlearn.domain.objects.agent_tasks import AgentTasks, Deps, agent_tasks
from agentlearn.domain.objects.given_reward import Out, RewardFunction, RewardGiven
from agentlearn.domain.objects.given_tasks import TasksGiven, tasks_from
from agentlearn.domain.objects.judged_output import MadeUp, OutputTasks
from agentlearn.domain.objects.program_tasks import Program, ProgramTasks, program_tasks

__all__ = [
    "AgentTasks",
    "Deps",
    "MadeUp",
    "Out",
    "OutputTasks",
    "Program",
    "ProgramTasks",
    "RewardFunction",
    "RewardGiven",
    "TasksGiven",
    "agent_tasks",
    "program_tasks",
    "tasks_from",
]
