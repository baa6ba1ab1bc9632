"""Files to start from: a domain package with its tests (`new_domain`) and a recipe (`write_recipe`)."""

from agentlearn.domain.templates.package import new_domain, write_recipe

__all__ = ["new_domain", "write_recipe"]
