"""The simulated world: a service on loopback with a solver that has declared weaknesses, and a reflector.

Its answers are marked as simulated. Code that learns or evaluates must not import it (an import contract checks that);
it reaches the simulated models over HTTP, like any other model.
"""

MODELS = ("novice", "reflector", "echo")
"""Names of the simulated models."""
