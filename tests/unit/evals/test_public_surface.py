"""The public names of `agentlearn_evals`."""

import agentlearn_evals

PUBLIC = [
    "CompareCallbacks", "CompareSettings", "Compared", "Comparison", "Contrast", "Observation", "PowerReport",
    "PowerSettings", "compare", "compare_logs", "compare_sync", "comparison_page", "power", "run_comparison",
    "run_comparison_sync",
]  # fmt: skip
"""What it promises; a name that comes or goes is a change that users notice."""


def test_the_public_names_are_these_and_resolve() -> None:
    assert agentlearn_evals.__all__ == PUBLIC
    assert sorted(PUBLIC) == PUBLIC
    for name in PUBLIC:
        found = getattr(agentlearn_evals, name)
        assert found.__name__ == name, "a module of the same name would hide it"
