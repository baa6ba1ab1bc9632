"""Guards that hold for every test: loopback only, a clean environment, nothing left running."""

import asyncio
import contextlib
import gc
import inspect
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.leftovers import no_asyncio_task_left, no_process_left

CHILD = str(Path(__file__).parent / "support" / "child")
FOREIGN_PREFIXES = ("AGENTLEARN_", "ANTHROPIC_", "AZURE_", "DEEPSEEK_", "GEMINI_", "GOOGLE_", "HF_", "OPENAI_")
FOREIGN_SUFFIXES = ("_API_KEY", "_TOKEN", "_PROXY")
PRELOADING = {"test_attacks", "test_contract", "test_snippets"}
"""Files of tests of sandboxes with all that they import before the first session; not where a test starts its own."""
ALL_SLOW = re.compile(r"^pytestmark = .*\bmark\.slow\b", re.MULTILINE)


def clean_environment() -> None:
    """Take out of the environment whatever could make a test behave otherwise on another machine, or spend money."""
    for name in os.environ.keys() - {"AGENTLEARN_CASSETTES", "AGENTLEARN_RECORDINGS"}:
        if name.upper().startswith(FOREIGN_PREFIXES) or name.upper().endswith(FOREIGN_SUFFIXES):
            del os.environ[name]
    with suppress(ImportError):
        import readline  # noqa: F401  it sets LINES and COLUMNS for child processes, behind os.environ
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "LINES", "COLUMNS"):
        os.environ.pop(name, None)
        os.unsetenv(name)
    os.environ.update(NO_COLOR="1")


def guard_sockets() -> None:
    """Block the network here and, through PYTHONPATH, in every Python process started from here."""
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if CHILD not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([CHILD, *filter(None, known)])
    if CHILD not in sys.path:
        sys.path.append(CHILD)
    import loopback_guard  # noqa: F401  importing it installs the guard


def choose_examples() -> None:
    """Hypothesis: the same few examples every time, unless HYPOTHESIS_PROFILE=dev goes looking for many new ones.

    `scripts/test` sets the profile `quick` for the quick tests alone.
    """
    slow = [HealthCheck.too_slow]
    for name, examples in (("quick", 6), ("ci", 25)):
        settings.register_profile(
            name, derandomize=True, database=None, deadline=None, max_examples=examples, suppress_health_check=slow
        )
    settings.register_profile("dev", deadline=None, max_examples=500, suppress_health_check=slow)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


clean_environment()
guard_sockets()
choose_examples()
gc.disable()  # until all tests are collected: collections find nothing there and take long


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of slow tests where they are not wanted: most of these files import heavy packages."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return bool(ALL_SLOW.search(collection_path.read_text(encoding="utf-8"))) or None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Serve the simulated world in this process, and start light sandboxes; not for the tests of these themselves."""
    with contextlib.suppress(ModuleNotFoundError):  # the core install is tested without it
        from tests.support.world_here import sandboxes_preload, serve_worlds_here

        serve_worlds_here("/demo/" not in item.nodeid)
        sandboxes_preload(item.path.stem in PRELOADING and "name" not in getattr(item, "fixturenames", ()))


def pytest_collection_finish() -> None:
    """Collect garbage again, but rarely: a full collection walks through all that the tests import.

    Freezing what was imported would break Hypothesis, which asks for referrers of objects.
    """
    gc.set_threshold(20_000, 10, 50)
    gc.enable()


def pytest_unconfigure() -> None:
    """Collect garbage once more, and spare pytest and the interpreter the walks through all that was imported."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function; one that takes longer than ten minutes hangs."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**given), timeout=600))
    return True


@pytest.fixture(autouse=True)
def _no_process_left_behind() -> Iterator[None]:
    with no_process_left():
        yield


@pytest.fixture(autouse=True)
def _no_asyncio_task_left_behind() -> Iterator[None]:
    with no_asyncio_task_left():
        yield


@pytest.fixture(autouse=True)
def _no_log_level_left_behind() -> Iterator[None]:
    """Commands that a test runs in this process choose which log events are shown."""
    logger = logging.getLogger("agentlearn")
    level = logger.level
    yield
    logger.setLevel(level)
