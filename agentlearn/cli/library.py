"""`agentlearn library`. Libraries are plain files, so these commands work while a run holds the store."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from agentlearn.cli.output import console, print_json

Store = Annotated[Path, Parameter(help="Directory of everything kept.")]
Json = Annotated[bool, Parameter(negative="", help="Print one JSON object.")]
Reference = Annotated[str, Parameter(help="NAME, NAME@VERSION, or a file.")]


def list_libraries(*, store: Store = Path(".agentlearn"), json: Json = False) -> None:
    """List libraries with their current versions."""
    found = _shelf(store).list()
    if json:
        print_json({"libraries": [_plain(asdict(one)) for one in found]})
        return
    out = console()
    if not found:
        out.print(f"there are no libraries in {store}; begin with: agentlearn learn math")
    for one in found:
        out.print(f"{one.name}@{one.version[:8]}  {one.lessons} lessons, {one.tokens} tokens  {one.at:%Y-%m-%d %H:%M}")


def show(reference: Reference, /, *, store: Store = Path(".agentlearn"), json: Json = False) -> None:
    """Show the lessons of a library."""
    library = _shelf(store).load(reference)
    if json:
        print_json({"version": library.version, **library.model_dump(mode="json")})
        return
    out = console()
    out.print(
        f"{reference}  version {library.version[:8]}  {len(library)} lessons, {library.tokens} tokens (estimated)"
    )
    for number, one in enumerate(library.experiences, start=1):
        out.print(f"[G{number}] {one.lesson}")
        out.print(f"      {one.id[:12]}  {one.origin.kind}{'  ' + ' '.join(one.tags) if one.tags else ''}")


def log(
    name: Annotated[str, Parameter(help="A library's name.")],
    /,
    *,
    store: Store = Path(".agentlearn"),
    json: Json = False,
) -> None:
    """Show the versions of a library, newest first."""
    versions = _shelf(store).log(name)
    if json:
        print_json({"versions": [_plain(asdict(one)) for one in versions]})
        return
    out = console()
    for one in versions:
        out.print(f"{name}@{one.version[:8]}  {one.lessons} lessons, {one.tokens} tokens  {one.at:%Y-%m-%d %H:%M}")


def export(
    reference: Reference,
    /,
    *,
    out: Annotated[Path, Parameter(help="File to write.")],
    form: Annotated[
        Literal["agentlearn", "training-free-grpo"],
        Parameter(name="--format", help="training-free-grpo: the original's JSON."),
    ] = "agentlearn",
    store: Store = Path(".agentlearn"),
) -> None:
    """Write a library to a file that `--from`, `--library` and other programs can read."""
    _shelf(store).export(reference, out, format=form)
    console().print(f"wrote {out}")


def _shelf(store: Path) -> Any:
    from agentlearn.library import LibraryStore

    return LibraryStore(store / "libraries")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value.isoformat() if hasattr(value, "isoformat") else value for key, value in row.items()}
