"""The scoring process: a program that gets a socket and its parent's id and answers one request per line.

It computes with text that a model wrote, so it may fail or hang. It is not a sandbox for hostile code: answers that
could call something are never given to a scorer (`agentlearn.data.scorer`).
"""

import resource
import signal
import socket
import sys
from collections.abc import Callable

from agentlearn.data import scorer
from agentlearn.domain.custom.scoring import ScoreRequest, ScorerMessage
from agentlearn.errors import AgentlearnError, VerifierError
from agentlearn.sandbox.inside.kernel import die_with
from agentlearn.types.value import Value

_MEMORY_BYTES = 4 << 30
_MAX_WORDS = 300

SendReply = Callable[[Value], None]


def main(descriptor: int, parent: int) -> None:
    """Answer requests until the parent ends or closes the socket."""
    die_with(parent, signal.SIGKILL)
    with socket.socket(fileno=descriptor) as connection, connection.makefile("rwb", buffering=0) as stream:

        def say(value: Value) -> None:
            stream.write(value.model_dump_json().encode() + b"\n")

        if (refusal := _imported()) is not None:
            say(refusal)
            return
        _bound()
        say(ScorerMessage(state="ready"))
        with connection.makefile("rb") as questions:
            for line in questions:
                say(answered(ScoreRequest.model_validate_json(line), say))


def answered(asked: ScoreRequest, say: SendReply) -> ScorerMessage:
    """Return the score; `say` is called before scoring starts."""
    try:
        score = scorer(asked.place)
    except (AgentlearnError, ValueError, LookupError) as error:
        return ScorerMessage(state="failed", code="gym", message=f"{asked.place!r} cannot be built: {_words(error)}")
    say(ScorerMessage(state="scoring"))
    try:
        return ScorerMessage(state="scored", score=score(asked.answer))
    except VerifierError as error:
        return ScorerMessage(state="failed", code="scorer_refused", message=error.message)
    except BaseException as error:  # noqa: BLE001  a scorer may raise anything, SystemExit too
        words = f"the scorer of {asked.place!r} raised {type(error).__name__}: {_words(error)}"
        return ScorerMessage(state="failed", code="scorer_raised", message=words[:_MAX_WORDS])


def _imported() -> ScorerMessage | None:
    """Import the library now, so that the import does not count as time of the first answer."""
    try:
        import reasoning_gym  # noqa: F401  # pyright: ignore[reportMissingImports, reportUnusedImport]
    except ImportError as error:
        words = f"scoring needs reasoning-gym: pip install 'agentlearn-lib[gym]' ({_words(error)})"
        return ScorerMessage(state="failed", code="missing_extra", message=words[:_MAX_WORDS])
    return None


def _bound() -> None:
    """Limit the memory of this process and forbid it to write files."""
    for kind, most in ((resource.RLIMIT_AS, _MEMORY_BYTES), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
