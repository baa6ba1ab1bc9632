"""Domains made from objects of a program: its agent or function, its tasks, its reward."""

from agentlearn.domain.objects.agent_tasks import AgentTasks, Deps, Program, ProgramTasks, agent_tasks, program_tasks
from agentlearn.domain.objects.given_tasks import Out, RewardFunction, RewardGiven, TasksGiven, tasks_from
from agentlearn.domain.objects.judged_output import MadeUp, OutputTasks

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
