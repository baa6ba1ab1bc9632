"""Anchors: a contract on a chain of Ethereum's kind records when a library's root was first shown there, and by whom.

`anchor.vy` is the contract's source, and `anchor.json` what the compiler made of it. The endpoint is believed: ask one
that you trust, or several.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from agentlearn.errors import LibraryError, SharingError
from agentlearn.library.sharing import extra_package
from agentlearn.library.sharing.signing import Release

_web3 = extra_package("chain", "web3")


@contextmanager
def _refusals() -> Generator[None]:
    """Raise SharingError for what the chain, the contract or web3 refuses."""
    try:
        yield
    except (_web3.exceptions.Web3Exception, OSError, ValueError, TypeError) as error:
        why = f"the chain or the contract refuses: {error or type(error).__name__}"[:300]
        raise SharingError(f"{why}; check the URL, the contract's address and the account", code="chain") from error


class Chain:
    """The contract at an address. endpoint: the URL of a node, or a provider of web3.

    contract: its address; empty to deploy a new one. key: the private key of the account that pays, in hexadecimal.
    """

    def __init__(self, endpoint: Any, contract: str, key: str = "") -> None:
        if not (contract or key):
            raise LibraryError("name the address of the contract with --contract")
        compiled = json.loads(files("agentlearn.library.sharing").joinpath("anchor.json").read_text(encoding="utf-8"))
        with _refusals():
            web3 = _web3.Web3(_web3.HTTPProvider(endpoint) if isinstance(endpoint, str) else endpoint)
            self._eth, self._account = web3.eth, web3.eth.account.from_key(key) if key else None
            made = self._eth.contract(abi=compiled["abi"], bytecode=compiled["bytecode"])
            self.contract = contract or str(self._sent(made.constructor())["contractAddress"])
            self._calls = self._eth.contract(self.contract, abi=compiled["abi"]).functions

    def anchor(self, release: Release) -> str:
        """Record the root and the content id of a release; return the hash of the transaction. Raises SharingError."""
        with _refusals():
            receipt = self._sent(self._calls.anchor(release.root, release.content))
        self.check(release)
        return "0x" + bytes(receipt["transactionHash"]).hex()

    def check(self, release: Release) -> tuple[datetime, str]:
        """Return when a release was recorded, and by which address. Raises SharingError where it was not."""
        with _refusals():
            time, sender, content = self._calls.anchors(release.root).call()
        if content != release.content:
            why = f"{release.root} is not anchored in {self.contract} with the content {release.content}"
            raise SharingError(f"{why}; check the contract and the chain, or anchor it", code="not_anchored")
        return datetime.fromtimestamp(time, UTC), str(sender)

    def _sent(self, call: Any) -> Any:
        """The receipt of a transaction that was made, signed and sent."""
        account: Any = self._account
        made = {"from": account.address, "nonce": self._eth.get_transaction_count(account.address)}
        signed = account.sign_transaction(call.build_transaction(made))
        return self._eth.wait_for_transaction_receipt(self._eth.send_raw_transaction(signed.raw_transaction))
