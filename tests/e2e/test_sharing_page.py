"""docs/sharing.md: its commands, run in order as readers would, do what the page says."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.chain_node import chain_node
from tests.support.command import agentlearn_here

pytest.importorskip("cryptography", reason="needs the extra share")
pytest.importorskip("libipld", reason="needs the extra share")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sharing.md").read_text(encoding="utf-8")
PARTS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")}
NODE = Path(os.environ.get("TEST_IPFS_NODE", "none"))
"""A folder with Node.js and the npm packages of the page, as `npm install helia@7 @helia/car@6 node@22` makes it."""
WALLET = "0x" + "00" * 31 + "01"


def commands(part: str) -> list[list[str]]:
    """The lines of the shell blocks of a part of the page, without those that install something."""
    blocks = re.findall(r"```sh\n(.*?)```", PARTS[part], re.DOTALL)
    lines = [line.partition("  #")[0] for block in blocks for line in block.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith(("agentlearn ", "openssl "))]


def run(folder: Path, words: list[str], **named: str) -> str:
    """What a command of the page prints, with its words in capitals replaced."""
    words = [named.get(word, word) for word in words]
    out = words.index(">") if ">" in words else None
    if words[0] == "openssl":
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
        return ""
    said = agentlearn_here(*words[1:out], cwd=folder).stdout
    if out is not None:
        (folder / words[out + 1]).write_text(said)
    return said


def shown(folder: Path, store: str) -> list[str]:
    found = json.loads(agentlearn_here("library", "show", "math", "--store", store, "--json", cwd=folder).stdout)
    return [one["lesson"] for one in found["experiences"]]


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    """The folder after the part about signatures."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    for words in commands("Sign"):
        if words[:3] == ["agentlearn", "library", "sign"]:
            told = json.loads(agentlearn_here("library", "show", "math", "--json", cwd=tmp_path).stdout)
            (tmp_path / "comparison.json").write_text(json.dumps({"libraries": {"math": told["version"]}}))
        said = run(tmp_path, words)
    assert "math@" in said
    return tmp_path


def test_the_walk_through(signed: Path) -> None:
    for words in commands("Publish and fetch"):
        said = run(signed, words)
    assert "count both of its ends" in said, "what came in waits"
    assert shown(signed, "friend") == []

    run(signed, ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ben.pem"])
    run(signed, ["openssl", "ec", "-in", "ben.pem", "-pubout", "-out", "ben.pub"])
    policy: Any = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
    policy["rule"] = {"kind": "votes", "votes": 2}  # the votes of the page need no week
    for voter, key in zip(policy["voters"], ("ada", "ben"), strict=True):
        voter["key"] = (signed / f"{key}.pub").read_text()
    policy["signers"] = [(signed / "ada.pub").read_text()]
    (signed / "friend/libraries/math/sharing/policy.json").write_text(json.dumps(policy))
    named = dict[str, str]()
    for words in commands("Decide together"):
        said = run(signed, words, **named)
        if words[2] == "propose":
            named["PROPOSAL"] = re.findall(r"\S+\.json", said)[0]
            named["COPY"] = str(shutil.copy(signed / named["PROPOSAL"], signed / "copy.json"))
    assert len(shown(signed, "friend")) == 2, "the voters accepted both"

    found = json.loads(agentlearn_here("library", "show", "math", "--json", cwd=signed).stdout)
    named = {"LESSON": found["experiences"][0]["id"][:12], "ROOT": root_of(signed)}
    for words in commands("Show one lesson"):
        said = run(signed, words, **named)
    assert "count both of its ends" in said


def root_of(folder: Path) -> str:
    """The root that the published index names."""
    index = json.loads((folder / "channel/.well-known/skills/index.json").read_text())
    return index["skills"][0]["agentlearn"]["root"]


def test_a_program_of_others_accepts_the_signature(signed: Path) -> None:
    program = shutil.which("model_signing")
    if program is None:
        pytest.skip("needs a program: pip install model-signing pyOpenSSL")
    (command,) = re.findall(r"`(model_signing [^`]*)`", PAGE)
    subprocess.run([program, *shlex.split(command)[1:]], cwd=signed, check=True)


def test_another_node_fetches_it_over_ipfs(signed: Path) -> None:
    if not (NODE / "node_modules" / "helia").is_dir():
        pytest.skip("npm install --prefix DIR helia@7 @helia/car@6 node@22; TEST_IPFS_NODE=DIR pytest")
    shutil.copy(ROOT / "docs/examples/ipfs_node.mjs", NODE)
    publish, fetch = commands("IPFS")
    address = run(signed, publish).split()[-1]
    node = [str(NODE / "node_modules/.bin/node"), str(NODE / "ipfs_node.mjs")]
    with served([*node, "serve", str(signed / "math.car"), "/ip4/127.0.0.1/tcp/0"]) as peer:
        subprocess.run([*node, "get", address, str(signed / "fetched.car"), peer], check=True, timeout=120)
    assert "2 lessons can be used" in run(signed, fetch, ADDRESS=address)


@contextmanager
def served(command: list[str]) -> Iterator[str]:
    """Run a node that serves a file, and give its address."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        yield json.loads(running.stdout.readline())[0]
        running.stdin.close()


def test_it_is_anchored_and_found(signed: Path) -> None:
    for package in ("web3", "eth_tester", "eth"):
        limit = sys.getrecursionlimit()
        pytest.importorskip(package, reason="pip install --pre 'agentlearn-lib[chain]' 'eth-tester[py-evm]'")
        sys.setrecursionlimit(limit)
    (signed / "wallet.key").write_text(WALLET)
    anchor, verify = commands("Anchor")
    with ExitStack() as stack:
        url = stack.enter_context(chain_node(WALLET))
        contract = run(signed, anchor, URL=url).split()[1]
        assert "anchored on" in run(signed, verify, URL=url, CONTRACT=contract)
