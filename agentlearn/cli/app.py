"""The tree of commands. Each command is imported only when it is called, so that `--help` stays fast."""

import os
import warnings
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from agentlearn.cli.ending import DEBUG, UNREAD, Ending, ending_of, print_traceback, print_waiting, report_ending
from agentlearn.cli.output import console, restart_output
from agentlearn.cli.stop_signals import nobody_reads
from agentlearn.errors import ConfigError
from agentlearn.installed import version
from agentlearn.plugins import (
    COMMANDS,
    GROUP_OF_COMMANDS,
    GROUPS,
    CommandEntry,
    Plugin,
    announced,
    guarded,
    is_command,
    load,
)

_HELP = "Agents that get better from their own rollouts, with statistics that show by how much."
_EPILOGUE = (
    "Every option of a setting has an environment variable for its default: AGENTLEARN_MODEL for --model,"
    " AGENTLEARN_MAX_COST_USD for --max-cost-usd. An option wins over a recipe, a recipe over the environment.\n\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage or a setting to correct, 3 budget reached,"
    " 128+n stopped by signal n (130 Ctrl-C, 143 SIGTERM, 129 SIGHUP)."
)

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
    for name, command in COMMANDS.items():
        _add(app, name, command)
    for name, members in GROUPS.items():
        group = App(name=name, help=members.help, help_epilogue="")
        for subname, command in members.commands.items():
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
        app.command(lambda: None, name=plugin.name, help=f"A command of the package {plugin.package!r}.")
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


def _add(app: App, name: str, command: CommandEntry) -> None:
    app.command(command.function, name=name, help=command.help, help_epilogue="")


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status. With `--json`, an error is also one JSON object on stdout."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # pydantic-ai would print an advertisement between our lines

    def show_warning(message: Warning | str, *_: object, **__: object) -> None:  # without its place in the code
        console(to_stderr=True).print(f"warning: {' '.join(str(message).split())}")

    warnings.showwarning = show_warning
    json = "--json" in arguments
    restart_output(arguments)
    try:
        if any(one.partition("=")[0] == "--tenant" for one in arguments):
            from agentlearn.cli.options import in_store_of_tenant  # here: it imports the settings

            arguments = in_store_of_tenant(arguments)
        app = build(arguments)
        app.console = console(wrap=True)
        named = list(arguments)
        if named and named[0] in _ALONE and set(named[1:]) <= {"--json"}:
            named.insert(1, _ALONE[named[0]])
        app(named, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return report_ending(Ending("usage", " ".join(str(error).split()), 2), json=json)
    except BaseException as error:
        if isinstance(error, BrokenPipeError) and nobody_reads():
            return report_ending(Ending("output_closed", "", UNREAD).with_notes_of(error), json=json)
        if (ending := ending_of(error)) is None:
            raise
        if os.environ.get(DEBUG, "").casefold() == "debug":
            print_traceback(error)
        return report_ending(ending, json=json)
    if not json:
        print_waiting(arguments)
    return 0
