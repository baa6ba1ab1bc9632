"""The commands of this package, as entries of the group `agentlearn.commands`."""

from agentlearn.plugins import CommandEntry

compare = CommandEntry(
    "agentlearn_evals.command:compare", "Compare libraries, models or instructions, and report which is better."
)
evaluate = CommandEntry("agentlearn_evals.command:evaluate", "Score an agent on tasks without learning.")
power = CommandEntry(
    "agentlearn_evals.command:power",
    "Show how many tasks and rollouts are needed to detect a difference, and their cost.",
)
hybrid = CommandEntry(
    "agentlearn_evals.hybrid:hybrid",
    "Learn lessons, distil them into weights, measure both, and propose lessons to park.",
)
