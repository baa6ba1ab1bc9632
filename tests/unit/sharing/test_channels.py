"""Channels: what is published is fetched by others and waits there; what was tampered with on the way is refused."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentlearn import LibraryStore
from agentlearn.errors import AgentlearnError
from agentlearn.library.policy import Policy, Voter, VotingRule
from tests.support.command import agentlearn_here

pytest.importorskip("cryptography", reason="needs the extra share")
pytest.importorskip("libipld", reason="needs the extra share")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agentlearn.library.sharing import channels
from agentlearn.library.sharing.content_id import Package
from agentlearn.library.sharing.signing import Release, private_key, sign

PEM = serialization.Encoding.PEM
LESSON = "When a range is closed, count both of its ends."


def keys(folder: Path, *names: str) -> list[str]:
    """Write a pair of keys for each name, and return the public ones as PEM texts."""
    texts = list[str]()
    for name in names:
        key = ec.generate_private_key(ec.SECP256R1())
        plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (folder / f"{name}.pem").write_bytes(key.private_bytes(PEM, *plain))
        public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        (folder / f"{name}.pub").write_bytes(public)
        texts.append(public.decode())
    return texts


def run(folder: Path, words: str, expect: int = 0) -> Any:
    """The JSON of a command of `agentlearn library`."""
    return json.loads(agentlearn_here("library", *words.split(), "--json", cwd=folder, expect=expect).stdout)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A folder with keys, a store, a signed package and a channel that holds it."""
    keys(tmp_path, "ada", "ben", "eve")
    agentlearn_here("library", "add", "math", LESSON, cwd=tmp_path)
    version = run(tmp_path, "show math")["version"]
    (tmp_path / "comparison.json").write_text(json.dumps({"libraries": {"math": version}}))
    run(tmp_path, "sign math --key ada.pem --out math-1 --comparison comparison.json --days 30 --licence MIT")
    run(tmp_path, "sign math-1 --key ben.pem")
    run(tmp_path, "publish math-1 --to channel --key ada.pem")
    return tmp_path


def waiting(folder: Path, name: str = "math") -> list[str]:
    library = LibraryStore(folder / "libraries").load(name)
    return [one.experience.lesson for one in library.withheld]


def test_what_is_published_is_fetched_and_waits(published: Path) -> None:
    assert run(published, "verify math-1 --key ada.pub --key ben.pub --threshold 2")["release"]["licence"] == "MIT"
    run(published, "publish math-1 --to math.car --key ada.pem")
    address = Package.of_car((published / "math.car").read_bytes()).address
    for source in ("channel", "math-1", f"math.car --address {address}"):
        shutil.rmtree(published / "other", ignore_errors=True)
        place, *more = source.split()
        run(published, " ".join(["fetch", place, "math", *more, "--key ada.pub --threshold 1 --store other"]))
        assert waiting(published / "other") == [LESSON], "a signature makes no lesson trusted"
    (lesson,) = run(published, "show math")["experiences"]
    (published / "proof.json").write_text(json.dumps(run(published, f"verify math-1 --lesson {lesson['id'][:8]}")))
    root = json.loads((published / "proof.json").read_text())["root"]
    assert run(published, f"verify proof.json --root {root}")["lesson"]["lesson"] == LESSON
    assert run(published, f"verify proof.json --root 0x{'0' * 64}", expect=1)["error"]["code"] == "wrong_proof"


def test_files_beside_a_skill_do_not_travel_and_both_ends_say_so(tmp_path: Path) -> None:
    keys(tmp_path, "ada")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/SKILL.md").write_text("---\nname: math\n---\n# Math\n\n1. Run `x.sh`.\n", encoding="utf-8")
    (tmp_path / "in/x.sh").write_text("exit 1\n", encoding="utf-8")
    run(tmp_path, "import in --name math --approve")
    signed = ("library", "sign", "math", "--key", "ada.pem", "--out", "package")
    said = agentlearn_here(*signed, cwd=tmp_path).stdout
    assert "2 files beside it do not travel: the package has their names and hashes" in said
    found = run(tmp_path, "fetch package math --key ada.pub --store other")
    assert [one["place"] for one in found["not_read"]] == ["SKILL.md", "x.sh"]
    assert waiting(tmp_path / "other") == ["# Math\n\n1. Run `x.sh`.\n"]


INDEX, PACKAGE = Path(".well-known", "skills", "index.json"), Path(".well-known", "skills", "math")


def change_index(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def tamper(channel: Path) -> None:
        index = json.loads((channel / INDEX).read_text())
        change(index["skills"][0])
        (channel / INDEX).write_text(json.dumps(index))

    return tamper


def link(channel: Path) -> None:
    (channel / PACKAGE / "SKILL.md").unlink()
    (channel / PACKAGE / "SKILL.md").symlink_to("/etc/hostname")


def other_page(channel: Path) -> None:
    (channel / PACKAGE / "SKILL.md").write_text("x")


def nested(channel: Path) -> None:
    (channel / PACKAGE / "more").mkdir()
    (channel / PACKAGE / "more" / "extra.md").write_text("x")


def linked_folder(channel: Path) -> None:
    (channel / PACKAGE / "more").symlink_to("/etc")


def added(name: str) -> Callable[[Path], None]:
    return change_index(lambda one: one["files"].append(name))


def same(channel: Path) -> None: ...


TAMPERED: dict[str, tuple[Callable[[Path], object], str, str, int]] = {
    "the index changed": (change_index(lambda one: one.update(description="")), "--key ada.pub", "other_index", 1),
    "the index not signed": (lambda channel: (channel / f"{INDEX}.sig").unlink(), "--key ada.pub", "no_file", 2),
    "the index gone": (lambda channel: (channel / INDEX).unlink(), "", "no_file", 2),
    "no index": (lambda channel: (channel / INDEX).write_text("[]"), "", "bad_library", 2),
    "signed by a stranger": (same, "--key eve.pub", "unknown_key", 1),
    "too few signatures": (same, "--key ada.pub --threshold 2", "too_few_signatures", 1),
    "a file changed": (other_page, "--key ada.pub", "wrong_content", 1),
    "a file changed, and no key given": (other_page, "", "wrong_content", 1),
    "a path out of the folder": (added("../../../ada.pem"), "", "bad_path", 1),
    "an absolute path": (added("/etc/hostname"), "", "bad_path", 1),
    "a file that is not there": (added("more.md"), "", "no_file", 2),
    "a file beside the listed ones": (lambda channel: (channel / PACKAGE / "extra.md").touch(), "", "other_files", 1),
    "such a file in a folder": (nested, "--key ada.pub", "other_files", 1),
    "a link": (link, "", "bad_path", 2),
    "a link beside the listed ones": (linked_folder, "--key ada.pub", "bad_path", 2),
    "another address": (same, "--address bafkreih", "wrong_content", 1),
    "another library": (change_index(lambda one: one.update(name="other")), "", "unknown_library", 2),
}


def test_a_channel_that_was_tampered_with_is_refused(published: Path, subtests: pytest.Subtests) -> None:
    for name, (tamper, options, code, status) in TAMPERED.items():
        with subtests.test(name):
            shutil.rmtree(published / "copy", ignore_errors=True)
            shutil.copytree(published / "channel", published / "copy")
            tamper(published / "copy")
            refused = run(published, f"fetch copy math --store other {options}", expect=status)
            assert refused["error"]["code"] == code
    assert not (published / "other").exists()


def test_an_older_release_is_refused(published: Path) -> None:
    shutil.copytree(published / "channel", published / "old")
    run(published, "sign math --key ada.pem --out math-2")
    run(published, "publish math-2 --to channel --key ada.pem")
    run(published, "fetch channel math --key ada.pub --store other")
    assert run(published, "fetch old math --key ada.pub --store other", expect=1)["error"]["code"] == "older_release"
    assert run(published, "fetch old math --into else --key ada.pub --store other")["changed"]


def write_policy(folder: Path, **told: Any) -> None:
    place = folder / "libraries" / "math" / "sharing"
    place.mkdir(parents=True, exist_ok=True)
    (place / "policy.json").write_text(Policy(space="guild", **told).model_dump_json())


def test_a_policy_can_trust_a_signer(published: Path) -> None:
    signer = (published / "ada.pub").read_text()
    write_policy(published / "other", signers=(signer,), signed_lessons="show")
    run(published, "fetch channel math --store other")
    assert waiting(published / "other") == []
    write_policy(published / "third", signers=((published / "eve.pub").read_text(),), signed_lessons="show")
    assert run(published, "fetch channel math --store third", expect=1)["error"]["code"] == "unknown_key"
    run(published, "fetch channel math --key ada.pub --store third")
    assert waiting(published / "third") == [LESSON], "a key that only the command names makes no lesson trusted"
    write_policy(published / "fourth", signers=(signer,), signed_lessons="show", threshold=2)
    assert run(published, "fetch channel math --key ben.pub --store fourth")["shown"] == []


def test_voters_decide_and_the_receipt_travels(published: Path) -> None:
    voters = tuple(Voter(name=one, key=(published / f"{one}.pub").read_text()) for one in ("ada", "ben", "eve"))
    told: dict[str, Any] = {"voters": voters, "rule": VotingRule(kind="votes", votes=2)}
    write_policy(published / "other", **told)
    run(published, "fetch channel math --key ada.pub --store other")
    (held,) = run(published, "show math --store other")["withheld"]
    lesson = held["experience"]["id"][:12]
    assert run(published, f"approve {lesson} --store other", expect=2)["error"]["code"] == "needs_vote"
    refused = run(published, "import math-1/library.json --name math --approve --store other", expect=2)
    assert refused["error"]["code"] == "needs_vote"
    file = run(published, "propose math --store other")["file"]
    shutil.copy(published / file, published / "copy.json")
    agentlearn_here("library", "vote", file, "for", "--key", "ada.pem", cwd=published)
    assert run(published, f"tally {file} --apply --store other", expect=1)["error"]["code"] == "vote_open"
    assert "1 for" in agentlearn_here("library", "pending", "--store", "other", cwd=published).stdout
    agentlearn_here("library", "vote", "copy.json", "for", "--key", "ben.pem", cwd=published)
    assert run(published, f"tally {file} copy.json --apply --store other")["outcome"] == "accepted"
    assert waiting(published / "other") == []
    run(published, "sign math --key ada.pem --out math-2 --store other")
    run(published, "publish math-2 --to channel --key ada.pem")
    for store, rule, left in (
        ("third", told, []),
        ("fourth", {**told, "rule": VotingRule(kind="votes", votes=3)}, [LESSON]),
    ):
        write_policy(published / store, **rule)
        run(published, f"fetch channel math --key ada.pub --store {store}")
        assert waiting(published / store) == left, "the votes are counted again under this policy"


def test_a_package_replaces_only_a_package(published: Path) -> None:
    (published / "mine").mkdir()
    (published / "mine" / "diary.txt").write_text("private")
    assert run(published, "sign math --key ada.pem --out mine", expect=2)["error"]["code"] == "exists"
    assert (published / "mine" / "diary.txt").read_text() == "private"
    (published / "math-1" / ".git").mkdir()
    (published / "math-1" / ".git" / "config").write_text("kept")
    run(published, "sign math-1 --key eve.pem")
    assert (published / "math-1" / ".git" / "config").read_text() == "kept"


def test_a_release_of_another_name_is_neither_published_nor_fetched(published: Path) -> None:
    package, signer = channels.read_package(published / "math-1"), private_key(published / "ada.pem")
    plain = Package.of({name: one for name, one in package.files.items() if not name.startswith(("sig", "skill"))})
    now = datetime.now(UTC)
    up = sign(plain, Release.of(plain, name="../up", issued=now), signer)
    with pytest.raises(AgentlearnError) as refused:
        channels.publish(up, published / "channel", "", signer, now)
    assert refused.value.code == "bad_library"
    assert run(published, "fetch math-1 other --key ada.pub --store other", expect=1)["error"]["code"] == "wrong_name"
