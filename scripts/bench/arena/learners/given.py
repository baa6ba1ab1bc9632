"""The two ends: no learning, and the text of a person who knows every rule."""

from scripts.bench.arena.proxy import Proxy


def nothing(proxy: Proxy) -> str:
    """No learning."""
    return proxy.ground.start


def person(proxy: Proxy) -> str:
    """A person who knows every rule."""
    return proxy.ground.person
