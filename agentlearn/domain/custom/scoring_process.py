"""The scoring process: run as a program with a socket and its parent's id, it answers one question per line.

Model text is what it computes with. That makes it a place where computing may go wrong, not one where hostile code is
held: answers that could call something are not shown to a scorer at all (`agentlearn.data.scorer`).
"""

import resource
import signal
import socket
import sys
from collections.abc import Callable

from agentlearn.data import scorer
from agentlearn.domain.custom.scoring import ScoreReply, ScoreRequest, ScorerReady, Scoring, ScoringFailed
from agentlearn.errors import AgentlearnError, VerifierError
from agentlearn.sandbox.inside.process import die_with
from agentlearn.types.value import Value

_MEMORY_BYTES = 4 << 30
_MAX_WORDS = 300

SendReply = Callable[[Value], None]


def main(descriptor: int, parent: int) -> None:
    """Answer until the parent is gone or hangs up."""
    die_with(parent, signal.SIGKILL)
    with socket.socket(fileno=descriptor) as connection, connection.makefile("rwb", buffering=0) as stream:

        def say(value: Value) -> None:
            stream.write(value.model_dump_json().encode() + b"\n")

        if (refusal := _imported()) is not None:
            say(refusal)
            return
        _bound()
        say(ScorerReady())
        with connection.makefile("rb") as questions:
            for line in questions:
                say(answered(ScoreRequest.model_validate_json(line), say))


def answered(asked: ScoreRequest, say: SendReply) -> ScoreReply | ScoringFailed:
    """The score; `say` is told before the scorer begins."""
    try:
        score = scorer(asked.place)
    except (AgentlearnError, ValueError, LookupError) as error:
        return ScoringFailed(code="gym", message=f"{asked.place!r} cannot be made again: {_words(error)}")
    say(Scoring())
    try:
        return ScoreReply(score=score(asked.answer))
    except VerifierError as error:
        return ScoringFailed(code="scorer_refused", message=error.message)
    except BaseException as error:  # noqa: BLE001  a scorer may raise anything, SystemExit too
        words = f"the scorer of {asked.place!r} raised {type(error).__name__}: {_words(error)}"
        return ScoringFailed(code="scorer_raised", message=words[:_MAX_WORDS])


def _imported() -> ScoringFailed | None:
    """Import the library now, so that its time is not the first answer's."""
    try:
        import reasoning_gym  # noqa: F401  # pyright: ignore[reportMissingImports, reportUnusedImport]
    except ImportError as error:
        words = f"scoring needs reasoning-gym: pip install 'agentlearn-lib[data]' ({_words(error)})"
        return ScoringFailed(code="missing_extra", message=words[:_MAX_WORDS])
    return None


def _bound() -> None:
    """What a computation may take of the machine: memory, and no file."""
    for kind, most in ((resource.RLIMIT_AS, _MEMORY_BYTES), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
