"""Files to begin with: a domain package with its contract tests (`new_domain`), a recipe (`write_recipe`)."""

from agentlearn.scaffold.package import new_domain
from agentlearn.scaffold.recipe import write_recipe

__all__ = ["new_domain", "write_recipe"]
