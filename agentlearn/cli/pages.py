"""`write_learn_page`, under the name by which programs import it."""

from agentlearn.views.learn_page import write_learn_page

__all__ = ["write_learn_page"]
