"""The models of the simulated world."""

MODELS = ("novice", "reflector", "echo")
