"""The addresses of all pages, and the page of each."""

import re
from collections.abc import Callable, Mapping

from agentlearn.errors import ConfigError
from agentlearn.store import RunRow, StoreReader
from agentlearn.view.conversation import rollout_page, step_page
from agentlearn.view.grid import flips_page, grid_page, pair_page, two_runs_page
from agentlearn.view.lessons import (
    audit_page,
    card_of,
    diff_page,
    history_page,
    lesson_page,
    libraries_page,
    library_page,
    waiting_page,
)
from agentlearn.view.page import Page, View
from agentlearn.view.runs import call_page, cost_page, report_page, run_page, runs_page, stages_page
from agentlearn.view.traffic import live_page, search_page, talks_page
from agentlearn.views.records import GroupAddress, resolve

ROUTES: dict[str, Callable[..., Page]] = {
    "/runs": runs_page,
    "/run/{run}": run_page,
    "/run/{run}/grid": grid_page,
    "/run/{run}/flips": flips_page,
    "/run/{run}/stages": stages_page,
    "/run/{run}/call/{call}": call_page,
    "/run/{run}/report": report_page,
    "/two": two_runs_page,
    "/rollout/{rollout}": rollout_page,
    "/rollout/{rollout}/step/{number}": step_page,
    "/pair/{one}/{other}": pair_page,
    "/libraries": libraries_page,
    "/library/{name}": library_page,
    "/library/{name}/history": history_page,
    "/library/{name}/diff": diff_page,
    "/library/{name}/audit": audit_page,
    "/library/{name}/card": card_of,
    "/lesson/{lesson}": lesson_page,
    "/waiting": waiting_page,
    "/live": live_page,
    "/live/{name}": talks_page,
    "/cost": cost_page,
    "/search": search_page,
}
"""The page of each address. Its parameters in braces are the arguments of the function, after the view."""
PICTURE = re.compile(r"/rollout/([^/]+)/picture/([^/]+)")
_PATTERNS = [(re.compile(re.sub(r"\{\w+\}", "([^/]+)", path)), page) for path, page in ROUTES.items()]


def page_of(view: View) -> Page | None:
    """The page of the view's address; None for an address without one. Raises AgentlearnError."""
    for pattern, page in _PATTERNS:
        if (found := pattern.fullmatch(view.path)) is not None:
            return page(view, *found.groups())
    return None


def address_of(reader: StoreReader, names: Mapping[str, object] | frozenset[str], thing: str) -> str:
    """The path of the page about a thing: a run, a comparison, a rollout, a group, `NAME` or `NAME@X`.

    names: the libraries of the store. Without a thing, the list of runs; `waiting`: what waits for a person. Raises
    ConfigError.
    """
    if thing in {"", "waiting"}:
        return f"/{thing or 'runs'}"
    name, at, version = thing.partition("@")
    if name in names and "/" not in name:
        return f"/library/{name}{f'?at={version}' if at else ''}"
    try:
        found = resolve(reader, thing)
    except ConfigError as error:
        known = ", ".join(map(repr, sorted(names))) or "none"
        raise ConfigError(f"{error}; it is no library either (found: {known})", code=error.code) from error
    match found:
        case RunRow():
            return f"/run/{found.run}"
        case GroupAddress():
            return f"/run/{found.run.run}/grid?phase={found.phase}&task={found.task}"
        case _:
            return f"/rollout/{found}"
