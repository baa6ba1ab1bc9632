"""An agent at the top of a module, as users have them."""

from pydantic_ai import Agent

agent = Agent(None, name="named")
