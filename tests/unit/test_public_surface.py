"""What `import agentlearn` gives, and what it does not drag in."""

import subprocess
import sys
from importlib.resources import files

import agentlearn

HEAVY = ("duckdb", "numpy", "openai", "playwright", "pydantic_ai", "sympy", "torch", "transformers", "vllm")


PUBLIC = [
    *("AgentlearnError", "Answer", "Domain", "Experience", "Experiences", "Group", "Groups", "LearnReport"),
    *("LearnSettings", "Library", "LibraryStore", "Recorder", "Retrieval", "RolloutContext", "Rubric", "Shown", "Task"),
    *("Trajectory", "Treatment", "User", "Verdict", "Work", "Worked", "compare", "compare_sync", "learn"),
    *("learn_sync", "lessons", "library_of", "load_domain", "open_store", "read_store", "run_learning"),
    *("run_learning_sync", "shown_in", "solve", "solve_sync"),
]
"""What `agentlearn` promises; a name that comes or goes is a change that users notice."""


def loaded_after(statement: str) -> set[str]:
    """The top-level packages loaded once a fresh interpreter has run the statement."""
    program = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True)
    return set(child.stdout.split())


def test_the_public_names_are_these() -> None:
    assert agentlearn.__all__ == PUBLIC
    assert sorted(PUBLIC) == PUBLIC


def test_public_names_resolve_and_show_up_in_completion_and_no_other_name_is_there() -> None:
    for name in PUBLIC:
        home = getattr(agentlearn, name)
        assert getattr(home, "__name__", name) == name
    assert set(PUBLIC) <= set(dir(agentlearn))
    assert not hasattr(agentlearn, "no_such_name")


def test_import_stays_cheap() -> None:
    assert loaded_after("import agentlearn, agentlearn.measure").isdisjoint({*HEAVY, "mpmath"})


def test_help_stays_cheap() -> None:
    statement = (
        "import sys\n"
        "from agentlearn.cli import main\n"
        "sys.argv = ['agentlearn', '--help']\n"
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()"
    )
    assert loaded_after(statement).isdisjoint(HEAVY)


def test_each_shipped_package_is_typed() -> None:
    for package in ("agentlearn", "agentlearn_math", "agentlearn_evals"):
        assert files(package).joinpath("py.typed").is_file(), package
