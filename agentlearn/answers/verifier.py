"""The verifier program: a fork server that has imported algebra, and workers forked from it that compare pairs in turn.

The fork server gets the workers' ends of streams on a SOCK_SEQPACKET socket, one in each message, and forks a worker
for each; it sends one message when it is ready. A worker reads requests `{"answer", "gold", "cpu_s"}` and writes
replies `{"status", "reason"}`, each as four bytes of length and JSON. A timer of CPU time ends a worker that needs more
than `cpu_s` for one request, so other processes change no result; the fork server then replies `late` for it. A worker
is killed when the other end of its stream closes. No compared text is run as code.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
from typing import Any, BinaryIO

from agentlearn.answers.match import Match

MEMORY_BYTES = 1_500_000_000
OUT_OF_TIME = signal.SIGPROF
"""The signal that ends a worker when its CPU time is used up."""
MAX_FRAME_BYTES = 1 << 20


def frame(content: dict[str, Any]) -> bytes:
    """Return a request or reply with its length before it."""
    text = json.dumps(content).encode()
    return struct.pack("!I", len(text)) + text


def compare_texts(answer: str, gold: str, algebra: Any) -> Match:
    """Compare two texts; an error makes the result undecided."""
    from agentlearn.answers.form_comparison import FormComparator
    from agentlearn.answers.mathematics import form_of, parse_answer

    try:
        return FormComparator(algebra).compare(form_of(answer), parse_answer(gold))
    except MemoryError:
        return Match.unclear("the comparison took too much memory")
    except Exception as broken:  # noqa: BLE001  mpmath and sympy raise whatever they meet, and none of it judges
        return Match.unclear(f"the comparison broke with {type(broken).__name__}")


def _answer_requests(stream: BinaryIO) -> None:
    """Answer requests until the stream ends."""
    from agentlearn.answers.algebra import NumericAlgebra

    algebra = NumericAlgebra()
    while len(head := stream.read(4)) == 4 and (size := struct.unpack("!I", head)[0]) <= MAX_FRAME_BYTES:
        request = json.loads(stream.read(size))
        signal.setitimer(signal.ITIMER_PROF, request["cpu_s"])
        match = compare_texts(request["answer"], request["gold"], algebra)
        signal.setitimer(signal.ITIMER_PROF, 0)
        stream.write(frame({"status": match.status, "reason": match.reason}))
        stream.flush()


def main(control_fd: int) -> None:
    """Run the fork server until its socket closes; its workers end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    importlib.import_module("agentlearn.answers.algebra")  # workers need it
    gc.freeze()
    control = socket.socket(fileno=control_fd)
    control.send(b"ready")
    poll = select.poll()
    poll.register(control_fd, select.POLLIN)
    workers: dict[int, tuple[int, int, socket.socket]] = {}
    """By each of its two descriptors: process id, read end of a pipe that closes with the worker, and its stream."""
    while True:
        for fd, _ in poll.poll():
            if fd != control_fd:
                if fd in workers:
                    pid, alive, stream = workers[fd]
                    os.kill(pid, signal.SIGKILL)  # it is our child and not yet reaped, so the id is still valid
                    _, status = os.waitpid(pid, 0)
                    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == OUT_OF_TIME:
                        with contextlib.suppress(OSError):  # nobody may wait for it
                            stream.sendall(frame({"status": "late", "reason": ""}))
                    for one in (alive, stream.fileno()):
                        poll.unregister(one)
                        del workers[one]
                    os.close(alive)
                    stream.close()
                continue
            message, fds, _, _ = socket.recv_fds(control, 64, 1)
            if not message:
                for pid in {pid for pid, _, _ in workers.values()}:
                    os.kill(pid, signal.SIGKILL)
                return
            stream, (alive, held) = socket.socket(fileno=fds[0]), os.pipe()
            pid = os.fork()
            if not pid:
                for other in {control, *(one for _, _, one in workers.values())}:
                    other.close()
                _work(stream)
            os.close(held)
            workers |= dict.fromkeys((alive, stream.fileno()), (pid, alive, stream))
            poll.register(alive, 0)
            poll.register(stream.fileno(), 0)  # only that the other end has closed


def _work(stream: socket.socket) -> None:
    """Be a worker, and end."""
    status = 1
    try:
        signal.signal(OUT_OF_TIME, signal.SIG_DFL)
        with open("/proc/self/statm") as counted:  # noqa: PTH123  pathlib is slow to load
            most = int(counted.read().split()[0]) * resource.getpagesize() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        gc.enable()
        with stream, stream.makefile("rwb") as frames:
            _answer_requests(frames)  # type: ignore[arg-type]
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]))
