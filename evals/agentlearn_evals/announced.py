"""The commands of this package, as the command line learns of them."""

from agentlearn.cli.announced import Announced

compare = Announced(
    "agentlearn_evals.command:compare",
    "Say with statistics which arm is better: libraries, models, instructions, or several of these.",
)
power = Announced(
    "agentlearn_evals.command:power",
    "Say how many tasks and rollouts an effect takes, and what they cost, before anything is spent.",
)
