"""The simulated world: a loopback service with a solver that has declared weaknesses, and a reflector.

It is a simulation and says so everywhere. Nothing that learns or evaluates may import it (an import contract proves
it): it is reached as an endpoint, over HTTP, like any other model.
"""
