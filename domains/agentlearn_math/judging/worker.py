"""The worker program: a fork server that has imported algebra, and workers forked from it that compare pairs in turn.

The fork server takes orders on a SOCK_SEQPACKET socket, one JSON object each: `{"open": number}` with the worker's end
of a stream, `{"close": number}`, `{"ended": number}`. It sends `{"ready": true}` once, and for each `ended` the signal
that ended that worker, `{"ended": number, "by": signal}`. A worker reads requests `{"answer", "gold", "cpu_s"}` and
writes replies `{"status", "reason"}`, each as four bytes of length and JSON. A timer of CPU time ends a worker that
needs more than `cpu_s` for one request, so other processes change no result. No compared text is run as code.
"""

import gc
import importlib
import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import Any, BinaryIO

from agentlearn.answers.match import Match, unclear
from agentlearn.sandbox.inside.process import address_space_bytes, die_with

MEMORY_BYTES = 1_500_000_000
OUT_OF_TIME = signal.SIGPROF
"""The signal that ends a worker when its CPU time is used up."""
MAX_FRAME_BYTES = 1 << 20


def main(control_fd: int, parent: int) -> None:
    """Run the fork server until its socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent, signal.SIGKILL)
    gc.disable()
    importlib.import_module("agentlearn_math.judging.algebra")  # workers need it
    gc.freeze()
    control = socket.socket(fileno=control_fd)
    control.send(b'{"ready": true}')
    workers_by_number: dict[int, int] = {}
    while True:
        message, fds, _, _ = socket.recv_fds(control, 4_096, 1)
        if not message:
            break
        order: dict[str, int] = json.loads(message)
        if "open" in order:
            workers_by_number[order["open"]] = _forked(control, fds[0])
            os.close(fds[0])
        elif "ended" in order:
            by = _end(workers_by_number.pop(order["ended"], None))
            control.send(json.dumps({"ended": order["ended"], "by": by}).encode())
        else:
            _end(workers_by_number.pop(order["close"], None))
    for worker in workers_by_number.values():
        _end(worker)


def answer_requests(stream: BinaryIO) -> None:
    """Answer requests until the stream ends."""
    from agentlearn_math.judging.algebra import NumericAlgebra

    algebra = NumericAlgebra()
    while (request := _read(stream)) is not None:
        signal.setitimer(signal.ITIMER_PROF, request["cpu_s"])
        match = compare_texts(request["answer"], request["gold"], algebra)
        signal.setitimer(signal.ITIMER_PROF, 0)
        reply = json.dumps({"status": match.status, "reason": match.reason}).encode()
        stream.write(struct.pack("!I", len(reply)) + reply)
        stream.flush()


def compare_texts(answer: str, gold: str, algebra: Any) -> Match:
    """Compare two texts; an error makes the result undecided."""
    from agentlearn_math.judging.comparator import FormComparator
    from agentlearn_math.judging.parse_answer import form_of, parse_answer

    try:
        return FormComparator(algebra).compare(form_of(answer), parse_answer(gold))
    except MemoryError:
        return unclear("the comparison took too much memory")
    except Exception as broken:  # noqa: BLE001  mpmath and sympy raise whatever they meet, and none of it judges
        return unclear(f"the comparison broke with {type(broken).__name__}")


def _read(stream: BinaryIO) -> dict[str, Any] | None:
    head = stream.read(4)
    if len(head) < 4:
        return None
    (size,) = struct.unpack("!I", head)
    if size > MAX_FRAME_BYTES:
        return None
    return json.loads(stream.read(size))


def _forked(control: socket.socket, fd: int) -> int:
    """Fork a worker for that stream and return its process id."""
    fork_server = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        die_with(fork_server, signal.SIGKILL)
        signal.signal(OUT_OF_TIME, signal.SIG_DFL)
        control.close()
        most = address_space_bytes() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        gc.enable()
        with socket.socket(fileno=fd) as stream, stream.makefile("rwb") as frames:
            answer_requests(frames)  # type: ignore[arg-type]
        status = 0
    finally:
        os._exit(status)


def _end(pid: int | None) -> int:
    """Kill a worker unless it has ended; return the signal that ended it, 0 for none."""
    if pid is None:
        return 0
    os.kill(pid, signal.SIGKILL)  # it is our child and not yet reaped, so the id is still valid
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
