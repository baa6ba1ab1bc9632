"""The contract on an in-process EVM: what is anchored is found, nothing else is, and it checks proofs as we do."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files

import pytest

pytest.importorskip("libipld", reason="needs the extra share")

from agentlearn.errors import LibraryError, SharingError
from agentlearn.library.sharing.content_id import LessonProof, Package, library_bytes
from agentlearn.library.sharing.signing import Release
from agentlearn.types.experience import library_of

KEY = "0x" + "00" * 31 + "01"


def release_of(*lessons: str) -> tuple[Package, Release]:
    package = Package.of({"library.json": library_bytes(library_of(lessons))})
    return package, Release.of(package, name="math", issued=datetime(2026, 5, 1, tzinfo=UTC))


@pytest.fixture
def recursion_limit() -> Iterator[None]:
    """The EVM raises the limit so much that other tests could overflow the stack."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("recursion_limit")
def test_a_release_is_anchored_once_and_found_by_everybody() -> None:
    how = "pip install --pre 'agentlearn-lib[chain]' 'eth-tester[py-evm]'"
    web3, _, _ = (pytest.importorskip(one, reason=how) for one in ("web3", "eth_tester", "eth"))
    from agentlearn.library.sharing.anchor import Chain

    provider = web3.EthereumTesterProvider()
    eth = web3.Web3(provider).eth
    address = eth.account.from_key(KEY).address
    eth.send_transaction({"from": eth.accounts[0], "to": address, "value": 10**18})
    package, release = release_of("Count both ends.", "Draw it.", "Try a smaller case.")
    ours = Chain(provider, "", KEY)
    assert ours.anchor(release).startswith("0x")
    seen = Chain(provider, ours.contract)
    assert seen.check(release)[1] == address
    proofs = [package.proof(one.id) for one in package.lessons]
    abi = json.loads(files("agentlearn.library.sharing").joinpath("anchor.json").read_text())["abi"]
    contract = web3.Web3(provider).eth.contract(ours.contract, abi=abi).functions

    def proves(proof: LessonProof) -> bool:
        return contract.proves(proof.root, proof.lesson.leaf, list(proof.path)).call()

    assert all(map(proves, proofs))
    other, unknown = release_of("Guess.")
    wrong = proofs[0].model_copy(update={"lesson": proofs[1].lesson})
    assert not proves(wrong)
    assert not proves(other.proof(other.lessons[0].id)), "this root is not anchored"
    for call in (
        lambda: seen.check(unknown),
        lambda: seen.check(release.model_copy(update={"content": unknown.content})),
    ):
        with pytest.raises(SharingError) as refused:
            call()
        assert refused.value.code == "not_anchored"
    with pytest.raises(Exception, match="already anchored"):  # an error of the stand-in for a node
        ours.anchor(release)
    with pytest.raises(LibraryError):
        Chain(provider, "")
    for fails in (
        lambda: Chain(provider, address).check(release),
        lambda: Chain("http://127.0.0.1:9", ours.contract).check(release),
        lambda: Chain(provider, "0x12").check(release),
        lambda: Chain(provider, ours.contract, "0x12"),
        lambda: Chain(provider, ours.contract, "no key"),
        lambda: Chain("ftp://nowhere", ours.contract).check(release),
    ):
        with pytest.raises(SharingError) as broken:
            fails()
        assert broken.value.code == "chain"
