"""The mistakes that occur across the families, and the words that lessons and programs use for them."""

from agentlearn_demo.sim.skills import traps_in

TRAPS = traps_in("agentlearn_demo.math")
"""All traps of the domain, in a fixed order."""
