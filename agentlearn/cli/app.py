"""The tree of commands. Each command is imported only when it is called, so that `--help` stays fast."""

import os
import shlex
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module

from cyclopts import (
    App,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from agentlearn.cli.output import (
    DEBUG,
    HELP_ALL,
    UNREAD,
    Ending,
    console,
    ending_of,
    print_traceback,
    print_waiting,
    report_ending,
    restart_output,
)
from agentlearn.cli.stop_signals import nobody_reads
from agentlearn.errors import ConfigError
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
    version,
)
from agentlearn.text import meant_or_known, nearest_name, visible_line
from agentlearn.text.printing import only_results_on_stdout
from agentlearn.text.secret_values import know_environment

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
    called, member = (*arguments[:2], "", "")[:2]
    own = called in COMMANDS or called in GROUPS
    short = _asks_for_help(arguments) and HELP_ALL not in arguments
    for name, command in COMMANDS.items():
        if not own or name == called:
            _add(app, name, command, short=short and own)
    for name, members in GROUPS.items():
        if own and name != called:
            continue
        group = App(name=name, help=members.help, help_epilogue="")
        for subname, command in members.commands.items():
            _add(group, subname, command, short=short and own and subname == member)
        app.command(group)
        if name == called and member and not member.startswith("-") and member not in members.commands:
            raise _unknown(f"agentlearn {name}", member, members.commands)
    if own:
        return app  # nothing else is read for a command of agentlearn's own
    plugins = announced(GROUP_OF_COMMANDS, reserved=is_command)
    if called.strip() and not called.startswith("-") and plugins.get(called) is None:
        raise _unknown("agentlearn", called, {*COMMANDS, *GROUPS, *plugins.usable})
    for plugin in plugins.usable.values():
        _add_plugin(app, plugin, called=plugin.name == called, short=short and plugin.name == called)
    return app


def _unknown(before: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for a word that is no command. It is raised before a command is imported."""
    words = meant_or_known(name, (one for one in known if not one.startswith("-")))
    return ConfigError(f"there is no command '{before} {visible_line(name)}'; {words}", code="usage")


def _usage_words(error: CycloptsError) -> str:
    """What is wrong with a command line, and what to do."""
    command = shlex.join(["agentlearn", *(error.command_chain or ())])
    match error:
        case UnusedCliTokensError(unused_tokens=tokens):
            return (
                f"{visible_line(shlex.join(tokens or ()))} is too much here; put a text of several words between quotes"
            )
        case UnknownOptionError(token=token):
            name = visible_line((token.keyword or token.value).partition("=")[0])
            known = [one for argument in error.argument_collection for one in argument.names]
            meant = nearest_name(name, known, alike=0.75)
            return (
                f"Unknown option: {name}. {f'Did you mean {meant}?' if meant else f'All options: {command} {HELP_ALL}'}"
            )
        case UnknownCommandError(unused_tokens=[name, *_]):
            return f"{visible_line(name)!r} is no command; {command} --help lists the commands and their options"
        case MissingArgumentError(argument=argument) if argument is not None:
            given = error.keyword or next((one.keyword for one in argument.tokens if one.keyword), None)
            lacking = f"{given} needs a value" if given else f"{argument.name} is missing"
            return f"{lacking}; {command} --help says what it is"
        case _:
            return " ".join(str(error).split())


def _add_plugin(app: App, plugin: Plugin, *, called: bool, short: bool) -> None:
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
        guarded(plugin, "command", lambda: _add(app, plugin.name, found, short=short))
    elif callable(found):
        app.command(found, name=plugin.name)
    else:
        raise ConfigError(
            f"the command {plugin.name!r} of the package {plugin.package!r} ({plugin.value}) is"
            f" {type(found).__name__!r} and not a function; reinstall or uninstall the package"
        )


def _add(app: App, name: str, command: CommandEntry, *, short: bool) -> None:
    """Add a command. short: for its `--help`, with its common options alone and the number of the others."""
    function, others = command.function, ""
    if short:
        from agentlearn.cli.options import SettingsCommand  # here: the list of commands needs no options

        module, _, attribute = command.function.partition(":")
        function = getattr(import_module(module), attribute)
        if isinstance(function, SettingsCommand):
            function, number = function.in_short()
            others = f"{number} more options: {HELP_ALL}"
    app.command(function, name=name, help=command.help, help_epilogue=others)


def _asks_for_help(arguments: Sequence[str]) -> bool:
    return bool({"--help", "-h", HELP_ALL} & set(arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status. With `--json`, an error is also one JSON object on stdout."""
    know_environment(os.environ)
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # pydantic-ai would print an advertisement between our lines

    def show_warning(message: Warning | str, *_: object, **__: object) -> None:  # without its place in the code
        console(to_stderr=True).print(f"warning: {' '.join(str(message).split())}")

    warnings.showwarning = show_warning
    if "--json" not in arguments or not _is_own(arguments[0]):
        restart_output(arguments)
        return _ended(arguments)
    with only_results_on_stdout() as results:
        restart_output(arguments, results)
        return _ended(arguments)


def _is_own(called: str) -> bool:
    """Whether a command is agentlearn's. Another package's may write its own JSON to stdout."""
    if called in COMMANDS or called in GROUPS or called.startswith("-"):
        return True
    plugin = announced(GROUP_OF_COMMANDS, reserved=is_command).usable.get(called)
    return plugin is None or plugin.own


def _ended(arguments: Sequence[str]) -> int:
    """Run a command whose output has begun, and return its exit status."""
    json = "--json" in arguments
    try:
        if any(one.partition("=")[0] == "--tenant" for one in arguments):
            from agentlearn.cli.options import in_store_of_tenant  # here: it imports the settings

            arguments = in_store_of_tenant(arguments)
        app = build(arguments)
        app.console = console(wrap=True)
        if arguments[:1] and not arguments[0].startswith("-") and _asks_for_help(arguments):
            app.help_print([one for one in arguments if not one.startswith("-")][:2])
            return 0
        named = ["--help" if one == HELP_ALL else one for one in arguments]
        if named and named[0] in _ALONE and set(named[1:]) <= {"--json"}:
            named.insert(1, _ALONE[named[0]])
        app(named, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return report_ending(Ending("usage", _usage_words(error), 2), json=json)
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
