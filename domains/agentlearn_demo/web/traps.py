"""The bad habits of the simulated solver on websites, and the words that lessons and walks use for them."""

from agentlearn_demo.sim.skills import traps_in

FIRST = "first_link_taken"
FOOTER = "stopped_at_footer"
SEARCH = "search_unused"
ARCHIVE = "wrong_year_opened"
SNIPPET = "snippet_trusted"
DUPLICATE = "near_duplicate_taken"
FORM = "form_left_at_defaults"

TRAPS = traps_in("agentlearn_demo.web")
"""All traps of the domain, in a fixed order."""
