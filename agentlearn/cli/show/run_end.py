"""How a run ended: why it has no report, and what to do next."""

from agentlearn.config.command_words import command_words
from agentlearn.store import RunRow, StoreReader


def end_reason(reader: StoreReader, run: RunRow) -> str:
    """Why a run failed or was interrupted; empty for a run that is done or running."""
    if run.state in {"done", "running"}:
        return ""
    failure = reader.run_failure(run)
    if failure is not None:
        return f"{failure.code}: {failure.message}"
    if run.state == "interrupted":
        return "its process ended before it could say why, as after a kill or a power failure"
    return "the reason was not recorded"


def next_step(reader: StoreReader, run: RunRow) -> str:
    """What a user can do with a run."""
    store = reader.directory
    if run.state == "running":
        return f"wait for it; what is stored so far: {command_words('trace', run.run, store=store)}"
    if run.state == "done" and run.kind == "hybrid":
        return f"its stages are runs of their own: {command_words('runs', 'list', store=store)}"
    if run.state == "done":
        return command_words("trace", run.run, store=store)
    if run.kind in {"learn", "train", "hybrid"}:
        first = "" if run.state == "interrupted" else "correct the cause, then  "
        return f"{first}{command_words(run.kind, '--resume', run.run, store=store)}"
    if run.kind == "eval":
        return "give the same `agentlearn compare` command again; its finished rollouts are used again"
    return f"give the same `agentlearn {'store import' if run.kind == 'import' else run.kind}` command again"
