"""The tree of commands. Each is loaded only when it is called, so that `--help` stays cheap."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

from cyclopts import App, CycloptsError

from agentlearn.cli.announced import Announced
from agentlearn.errors import AgentlearnError
from agentlearn.version import version

GROUP = "agentlearn.commands"

_HELP = "Agents that get better from their own rollouts, with numbers that say what it is worth."


def _sentence(error: CycloptsError) -> str:
    return f"agentlearn: {' '.join(str(error).split())}"


def build() -> App:
    """The application with every command, our own and those that installed packages announce."""
    app = App(
        name="agentlearn",
        help=_HELP,
        version=version,
        error_formatter=_sentence,
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
    )
    app.command(
        "agentlearn.cli.learn:learn", name="learn", help="Learn lessons from rollouts and measure what they are worth."
    )
    app.command(
        "agentlearn.cli.train:train", name="train", help="Train a local model's weights on rollouts (gradient GRPO)."
    )
    app.command("agentlearn.cli.solve:solve", name="solve", help="Solve one problem, with the steps shown.")
    app.command(
        "agentlearn.cli.doctor:doctor", name="doctor", help="Say what works here and how to mend what does not."
    )
    app.command("agentlearn.cli.trace:trace", name="trace", help="Show one rollout, step by step.")
    runs = App(name="runs", help="What happened: past runs.")
    runs.command("agentlearn.cli.runs:list_runs", name="list", help="List runs, newest first.")
    runs.command("agentlearn.cli.runs:show", name="show", help="Show one run: its report and its rollouts.")
    app.command(runs)
    library = App(name="library", help="Libraries of lessons.")
    library.command("agentlearn.cli.library:list_libraries", name="list", help="List libraries.")
    library.command("agentlearn.cli.library:show", name="show", help="Show the lessons of a library.")
    library.command("agentlearn.cli.library:log", name="log", help="Show the versions of a library, newest first.")
    library.command("agentlearn.cli.library:export", name="export", help="Write a library to a file.")
    app.command(library)
    data = App(name="data", help="Task files.")
    data.command("agentlearn.cli.data:check", name="check", help="Say what is in a task file, and what it can show.")
    app.command(data)
    domain = App(name="domain", help="Domains of your own.")
    domain.command("agentlearn.cli.domain:new", name="new", help="Write a package for a new domain, with its tests.")
    domain.command("agentlearn.cli.domain:check", name="check", help="Hold a domain to what it promises.")
    app.command(domain)
    lab = App(name="lab", help="Lab models: tiny transformers that a package schools and ships itself.")
    lab.command("agentlearn.cli.lab:build", name="build", help="School one from nothing, by a budget of tokens.")
    lab.command("agentlearn.cli.lab:check", name="check", help="Let one sit exams with and without lessons.")
    lab.command("agentlearn.cli.lab:export", name="export", help="Write the shipped one as a Hugging Face checkpoint.")
    app.command(lab)
    store = App(name="store", help="The trajectory store: check, repair, export, import.")
    store.command("agentlearn.cli.store:check", name="check", help="Look at everything in it, changing nothing.")
    store.command("agentlearn.cli.store:repair", name="repair", help="Mend it, and say what is lost.")
    store.command("agentlearn.cli.store:snapshot", name="snapshot", help="Write its tables, slim, as Parquet.")
    store.command("agentlearn.cli.store:export", name="export", help="Write rollouts for other programs.")
    store.command("agentlearn.cli.store:import_", name="import", help="Take in rollouts of other programs.")
    app.command(store)
    app.command("agentlearn.cli.init:init", name="init", help="Write a recipe to begin with.")
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        found = entry.load()
        if isinstance(found, Announced):
            app.command(found.function, name=entry.name, help=found.help)
        else:
            app.command(found, name=entry.name)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit status."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # it would print its own advertisement into our lines
    app = build()
    try:
        app(list(arguments), exit_on_error=False, print_error=True, result_action="return_value")
    except CycloptsError:
        return 2
    except AgentlearnError as error:
        print(f"agentlearn: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("agentlearn: interrupted; what was finished is stored", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; there is nobody to tell
        return 1
    return 0
