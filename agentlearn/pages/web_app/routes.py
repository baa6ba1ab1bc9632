"""The addresses of all pages, and what each shows."""

import re
from collections.abc import Callable, Mapping

from agentlearn.errors import ConfigError
from agentlearn.pages.records import GroupAddress, resolve
from agentlearn.pages.web_app import conversation, days, grid, lessons, offers, runs, traffic
from agentlearn.pages.web_app.page import File, Page, View, rendered, saved
from agentlearn.store import RunRow, StoreReader

ROUTES: dict[str, Callable[..., Page | File]] = {
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
    "/rollout/{rollout}/picture/{number}": conversation.picture,
    "/rollout/{rollout}/atif.json": conversation.atif_file,
    "/pair/{one}/{other}": grid.pair_page,
    "/libraries": lessons.libraries_page,
    "/library/{name}": lessons.library_page,
    "/library/{name}/history": lessons.history_page,
    "/library/{name}/diff": lessons.diff_page,
    "/library/{name}/audit": lessons.audit_page,
    "/library/{name}/card": lessons.card_of,
    "/lesson/{lesson}": lessons.lesson_page,
    "/days": days.days_page,
    "/waiting": lessons.waiting_page,
    "/offers": offers.offers_page,
    "/live": traffic.live_page,
    "/live/{name}": traffic.talks_page,
    "/erase": traffic.erase_page,
    "/cost": runs.cost_page,
    "/search": traffic.search_page,
}
"""What each address shows. Its parameters in braces are the arguments of the function, after the view."""
CLOSED = frozenset({"/erase"})
"""Pages that are made while the store is not open: they open it in another way."""
_PATTERNS = [(re.compile(re.sub(r"\{\w+\}", "([^/]+)", path)), page) for path, page in ROUTES.items()]


def file_of(view: View, *, note: str = "", more: bool = False) -> File | None:
    """What the view's address shows, as a server sends it and a bundle writes it; None for an address without a page.

    note: what an action has just done. more: only the next piece of a page. Raises AgentlearnError.
    """
    for pattern, show in _PATTERNS:
        if (found := pattern.fullmatch(view.path)) is None:
            continue
        page = show(view, *found.groups())
        if isinstance(page, File):
            return page
        if what := view.query.get("save", ""):
            return saved(page, what)
        piece = page.piece if more else None
        text = rendered(page, view, note=note) if piece is None else piece.text
        return File(text.encode("utf-8", "replace"), "text/html; charset=utf-8")
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
