"""A node of a chain on loopback: JSON-RPC over HTTP in front of an EVM in this process."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any


@contextmanager
def chain_node(account: str) -> Generator[str]:
    """Give the URL of a node whose chain has paid an account, given by its private key."""
    import web3

    provider = web3.EthereumTesterProvider()
    client = web3.Web3(provider)
    address = client.eth.account.from_key(account).address
    client.eth.send_transaction({"from": client.eth.accounts[0], "to": address, "value": 10**18})
    answer = provider.request_func(client, client.middleware_onion)

    class Node(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                answered: dict[str, Any] = dict(answer(asked["method"], asked["params"]))
            except Exception as error:
                answered = {"error": {"code": 3, "message": str(error)}}
            body = json.dumps({**answered, "jsonrpc": "2.0", "id": asked["id"]}, default=plain).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Node) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def plain(value: Any) -> Any:
    """A value of the EVM as JSON has it."""
    return "0x" + bytes(value).hex() if isinstance(value, bytes) else dict(value)
