"""Files to begin with: a domain package with its contract tests (`new_domain`), a recipe (`write_recipe`)."""

from agentlearn.domain.templates.package import new_domain
from agentlearn.domain.templates.recipe import write_recipe

__all__ = ["new_domain", "write_recipe"]
