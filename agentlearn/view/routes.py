"""The addresses of all pages, and the page of each."""

import re
from collections.abc import Callable, Mapping

from agentlearn.errors import ConfigError
from agentlearn.store import RunRow, StoreReader
from agentlearn.view import conversation, grid, lessons, runs, traffic
from agentlearn.view.page import Page, View
from agentlearn.views.records import GroupAddress, resolve

ROUTES: dict[str, Callable[..., Page]] = {
    "/runs": runs.runs_page,
    "/run/{run}": runs.run_page,
    "/run/{run}/grid": grid.grid_page,
    "/run/{run}/flips": grid.flips_page,
    "/run/{run}/stages": runs.stages_page,
    "/run/{run}/call/{call}": runs.call_page,
    "/run/{run}/report": runs.report_page,
    "/two": grid.two_runs_page,
    "/rollout/{rollout}": conversation.rollout_page,
    "/rollout/{rollout}/step/{number}": conversation.step_page,
    "/pair/{one}/{other}": grid.pair_page,
    "/libraries": lessons.libraries_page,
    "/library/{name}": lessons.library_page,
    "/library/{name}/history": lessons.history_page,
    "/library/{name}/diff": lessons.diff_page,
    "/library/{name}/audit": lessons.audit_page,
    "/library/{name}/card": lessons.card_of,
    "/lesson/{lesson}": lessons.lesson_page,
    "/waiting": lessons.waiting_page,
    "/live": traffic.live_page,
    "/live/{name}": traffic.talks_page,
    "/cost": runs.cost_page,
    "/search": traffic.search_page,
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
