"""`agentlearn library sign`, `verify`, `propose`, `vote`, `tally`, `publish`, `fetch` and `anchor`: docs/sharing.md."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import ValidationError

from agentlearn.cli.library import library_import
from agentlearn.cli.options import JsonOption, KeysOption, StoreOption
from agentlearn.cli.output import print_result
from agentlearn.config import DEFAULT_STORE
from agentlearn.errors import AgentlearnError, LibraryError, SharingError
from agentlearn.library import LibraryStore
from agentlearn.library.formats.markdown import AgentSkill
from agentlearn.library.history import History
from agentlearn.library.history.change_log import checked_name
from agentlearn.library.policy import SHARING
from agentlearn.library.sharing import content_of
from agentlearn.text.files import own_folder, write_whole
from agentlearn.text.printing import print_line
from agentlearn.types.value import Value, first_fault

_V = TypeVar("_V", bound=Value)
_Package = Annotated[Path, Parameter(help="Folder or CAR file of a package, as `library sign` writes it.")]
_Key = Annotated[Path, Parameter(help="Your private key: a PEM file with a P-256 key.")]
_Wallet = Annotated[Path, Parameter(help="File with your private key: P-256 as PEM, or a wallet's in hexadecimal.")]
_Threshold = Annotated[int, Parameter(help="How many keys that you trust must have signed.")]
_Ballot = Annotated[Path, Parameter(help="File of a proposal, as `library propose` writes it.")]
_Chain = Annotated[str, Parameter(help="URL of a node of the chain.")]
_Contract = Annotated[str, Parameter(help="Address of the contract.")]
_Channel = Annotated[Path, Parameter(help="Folder of a channel, such as a clone of a git repository; or a file *.car.")]
_Copies = Annotated[Path, Parameter(help="Copies of the same file, with votes of others.")]
_Apply = Annotated[bool, Parameter(negative="", help="Show the lessons to agents if they were accepted.")]
_DAYS = "Days until the signature expires. [default: never]"
_Text = Annotated[str, Parameter(help="Part of what is signed, for information.")]


def library_sign(
    what: Annotated[str, Parameter(help="NAME, NAME@X; or the folder of a package, to sign it too.")],
    /,
    *,
    key: _Key,
    out: Annotated[Path | None, Parameter(help="Folder to write the package to.")] = None,
    comparison: Annotated[Path | None, Parameter(help="What `compare --json` printed: the evidence.")] = None,
    days: Annotated[int | None, Parameter(help=_DAYS, validator=Number(gte=1, lte=36_500))] = None,
    model: _Text = "",
    domain: _Text = "",
    licence: _Text = "",
    price: _Text = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Sign a version of a library and write it with its evidence as a package; or sign a package as one more signer."""
    from agentlearn.library.sharing import channels, signing
    from agentlearn.library.sharing.content_id import LIBRARY_FILE, Package, library_bytes

    signer, now = signing.private_key(key), datetime.now(UTC)
    if out is None and not Path(what).is_dir():
        raise LibraryError(f"name the folder to write the package of {what!r} to with --out")
    if out is None:
        package = channels.read_package(Path(what))
        release = channels.claimed(package)
    else:
        name, library = checked_name(what.partition("@")[0]), LibraryStore(store / "libraries").load(what)
        told = {"model": model, "domain": domain, "licence": licence, "price": price}
        described = AgentSkill.description(library, name)
        skill = AgentSkill().write(library, AgentSkill.usual_name(name), described)
        files = {LIBRARY_FILE: library_bytes(library), **{file: text.encode() for file, text in skill.items()}}
        receipts = (store / "libraries" / name / SHARING / "receipts").glob("*.json")
        files |= {f"receipts/{one.name}": content_of(one) for one in receipts}
        files |= {signing.COMPARISON_FILE: content_of(comparison)} if comparison else {}
        package = Package.of({**files, channels.CARD_FILE: channels.hub_card(library, name, described, told)})
        expires = None if days is None else now + timedelta(days=days)
        release = signing.Release.of(package, name=name, issued=now, expires=expires, **told)
    package = signing.sign(package, release, signer)
    channels.write_package(package, out or Path(what), replace=out is None)
    lines = [f"signed {release.name}@{release.version[:8]} by the key {signing.key_id(signer.public_key())[:16]}"]
    if package.library.files:
        lines.append(
            f"{len(package.library.files)} files beside it do not travel: the package has their names and hashes"
        )
    print_result(release, [*lines, f"content id {release.content}", f"root {release.root}"], json=json)


def library_verify(
    package: _Package,
    /,
    *,
    key: KeysOption = (),
    threshold: _Threshold = 1,
    lesson: Annotated[str, Parameter(help="Print the proof of the lesson whose id starts so, and stop.")] = "",
    root: Annotated[str, Parameter(help="Check a file with a proof, against this root.")] = "",
    chain: _Chain = "",
    contract: _Contract = "",
    json: JsonOption = False,
) -> None:
    """Check who signed a package, that its files are the signed ones, and with --chain, when it was anchored."""
    from agentlearn.library.sharing import channels, signing
    from agentlearn.library.sharing.content_id import LessonProof

    if root or lesson:
        proof = _parsed(LessonProof, package) if root else channels.read_package(package).proof(lesson)
        proof.check(root or proof.root)
        print_result(proof, [f"{proof.lesson.lesson!r} belongs to the library {proof.root}"], json=json)
        return
    found = channels.read_package(package)
    release, signers = signing.verify(found, signing.trusted(key), datetime.now(UTC), threshold)
    said = {"release": release.model_dump(mode="json"), "signers": signers, "address": found.address}
    lines = [f"{release.name}@{release.version[:8]} was signed by {', '.join(one[:16] for one in signers)}"]
    if chain:
        from agentlearn.library.sharing.anchor import Chain

        at, sender = Chain(chain, contract).check(release)
        said |= {"anchored": at.isoformat(), "sender": sender}
        lines.append(f"anchored on {at:%Y-%m-%d %H:%M} by {sender}")
    print_result(said, lines, json=json)


def library_anchor(
    package: _Package, /, *, chain: _Chain, key: _Wallet, contract: _Contract = "", json: JsonOption = False
) -> None:
    """Record the root and the content id of a signed package on a chain, for a fee. Without --contract, make one."""
    from agentlearn.library.sharing import channels
    from agentlearn.library.sharing.anchor import Chain

    release = channels.claimed(channels.read_package(package))
    used = Chain(chain, contract, content_of(key).decode(errors="replace").strip())
    said = {"contract": used.contract, "transaction": used.anchor(release), "root": release.root}
    print_result(said, [f"{name} {value}" for name, value in said.items()], json=json)


def library_propose(name: str, /, *, store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """Propose to show the lessons of a library that wait: write the file on which voters vote."""
    from agentlearn.library.sharing.voting import Ballot, propose

    libraries = LibraryStore(store / "libraries")
    waiting = [one.experience.lesson for one in libraries.load(f"{name}@main").withheld if one.status == "pending"]
    proposal = propose(libraries.history(name).policy, name, waiting, datetime.now(UTC))
    file = _folder(store, name, "proposals") / f"{proposal.id[2:18]}.json"
    _write(file, Ballot(proposal=proposal))
    lines = [f"proposed {len(waiting)} lessons, open until {proposal.deadline:%Y-%m-%d %H:%M} UTC: {file}"]
    print_result({**proposal.model_dump(mode="json"), "id": proposal.id, "file": str(file)}, lines, json=json)


def library_vote(file: _Ballot, choice: Literal["for", "against", "abstain"], /, *, key: _Wallet) -> None:
    """Add your signed vote to the file of a proposal. It replaces the one that you gave before."""
    from agentlearn.library.sharing.signing import private_key
    from agentlearn.library.sharing.voting import Ballot, cast

    ballot, text = _parsed(Ballot, file), content_of(key).decode(errors="replace").strip()
    signer = text if re.fullmatch("(0x)?[0-9a-fA-F]{64}", text) else private_key(key)
    vote = cast(ballot.proposal, choice, signer, datetime.now(UTC))
    _write(file, ballot.joined([vote.decode()]))
    print_line(f"voted {choice}: {file}")


def library_tally(
    file: _Ballot,
    /,
    *others: _Copies,
    apply: _Apply = False,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Count the votes on a proposal, those of all copies together; with --apply, do what was decided."""
    from agentlearn.library.sharing.voting import Ballot

    ballot, now = _parsed(Ballot, file), datetime.now(UTC)
    ballot = ballot.joined(vote for one in others for vote in _parsed(Ballot, one).votes)
    history = LibraryStore(store / "libraries").history(ballot.proposal.library)
    found = ballot.tally(history.policy, now)
    lines = [found.words, *(f"refused: vote {digest[:12]} ({code})" for digest, code in found.refused.items())]
    if apply:
        shown = _show(history, ballot.accepted(history.policy, now), f"proposal {ballot.proposal.id}")
        (_folder(store, history.name, "proposals") / f"{ballot.proposal.id[2:18]}.json").unlink(missing_ok=True)
        _write(_folder(store, history.name, "receipts") / f"{ballot.proposal.id[2:18]}.json", ballot)
        lines.append(f"agents see {shown} more lessons")
    print_result(found, lines, json=json)


def library_publish(package: _Package, /, *, to: _Channel, key: _Key, json: JsonOption = False) -> None:
    """Put a signed package into a channel and sign its index, or write it as a CAR file for IPFS."""
    from agentlearn.library.sharing import channels, signing

    found, signer = channels.read_package(package), signing.private_key(key)
    name = channels.claimed(found).name
    if to.suffix == ".car":
        channels.write_package(found, to)
    else:
        channels.publish(found, to, AgentSkill.description(found.library, name), signer, datetime.now(UTC))
    print_result({"name": name, "address": found.address}, [f"published {name}: {found.address}"], json=json)


def library_fetch(
    source: Annotated[str, Parameter(help="Folder of a channel or a package, a file *.car, or the URL of one.")],
    name: Annotated[str, Parameter(help="Name of the library there.")],
    /,
    *,
    into: Annotated[str, Parameter(help="Library that gets the lessons. [default: that of the same name]")] = "",
    key: KeysOption = (),
    threshold: _Threshold = 1,
    address: Annotated[str, Parameter(help="Content id that the package must have.")] = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Import a library from a channel. Its lessons wait for you, unless your policy for the library says otherwise."""
    from agentlearn.library.sharing import channels, signing
    from agentlearn.library.sharing.voting import Ballot

    now, history = datetime.now(UTC), LibraryStore(store / "libraries").history(into or name)
    policy = history.policy
    keys, signers = signing.trusted([*key, *policy.signers]), tuple[str, ...]()
    package = channels.fetch(source, name, keys, address)
    if keys:
        release, signers = signing.verify(package, keys, now, max(threshold, policy.threshold))
        if release.name != name:
            raise SharingError(f"the release is of {release.name!r}, not {name!r}", code="wrong_name")
        for seen in (_folder(store, history.name, "seen") / f"{one}.json" for one in signers):
            if seen.exists():
                signing.refuse_older(release, _parsed(signing.Release, seen))
            _write(seen, release)
    else:
        print_line("note: no signature was checked; --key names the keys that you trust", to_stderr=True)
    file = _folder(store, history.name, "fetched") / f"{name}.json"
    write_whole(file, package.files["library.json"])
    enough = len(signing.trusted(policy.signers).keys() & signers) >= policy.threshold
    show = enough and policy.signed_lessons == "show" and not policy.votes
    library_import(file, name=history.name, form="agentlearn", approve=show, store=store, json=json)
    for receipt in [one for one in package.files if one.startswith("receipts/")] if policy.votes else ():
        try:
            ballot = _parsed(Ballot, Path(receipt), package.files[receipt])
            _show(history, ballot.accepted(policy, now), f"proposal {ballot.proposal.id}")
        except SharingError as refusal:
            print_line(f"note: {receipt} does not count here: {refusal}", to_stderr=True)


def open_proposals(history: History) -> Iterator[str]:
    """The open proposals of a library, with the votes in their files here."""
    for file in sorted(history.folder.glob(f"{SHARING}/proposals/*.json")):
        try:
            from agentlearn.library.sharing.voting import Ballot

            yield f"{file}  {_parsed(Ballot, file).tally(history.policy, datetime.now(UTC)).words}"
        except AgentlearnError as error:
            yield f"{file}  cannot be counted: {error}"


def _show(history: History, words: tuple[str, ...], note: str) -> int:
    """Show the waiting lessons that voters accepted, and return their number."""
    waiting = [one.experience for one in history.load("main").withheld if one.status == "pending"]
    accepted = [one.id for one in waiting if one.lesson in words]
    for lesson in accepted:
        history.approve(lesson, receipt=True, note=note)
    return len(accepted)


def _folder(store: Path, name: str, kind: str) -> Path:
    return own_folder(store / "libraries" / name / SHARING / kind, store)


def _parsed(kind: type[_V], file: Path, content: bytes | None = None) -> _V:
    """The value in a file, or in its content where that is known."""
    try:
        return kind.model_validate_json(content_of(file) if content is None else content)
    except ValidationError as error:
        raise LibraryError(f"{str(file)!r} is no {kind.__name__}: {first_fault(error)}") from error


def _write(file: Path, value: Value) -> None:
    write_whole(file, value.model_dump_json(indent=1).encode())
