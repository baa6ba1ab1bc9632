"""Log events of the library: structlog on the standard `logging`, silent until the application configures it.

Event names are constants such as `operation.refused`. The current run, task and rollout are added to each event.
"""

import logging

import structlog
from structlog.stdlib import BoundLogger
from structlog.tracebacks import ExceptionDictTransformer
from structlog.types import Processor, WrappedLogger

from agentlearn.text.secret_values import without_keys


def _hide_secrets(_: WrappedLogger, __: str, line: object) -> str:
    return without_keys(str(line))


_PROCESSORS: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.filter_by_level,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso"),
    structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),  # they may hold anything
    structlog.processors.KeyValueRenderer(key_order=["event"]),
    _hide_secrets,
)


def get_log(**bound: object) -> BoundLogger:
    """A logger that adds these fields, and the current run, task and rollout, to every event."""
    logger: BoundLogger = structlog.wrap_logger(
        logging.getLogger("agentlearn"),
        processors=_PROCESSORS,
        wrapper_class=BoundLogger,
        cache_logger_on_first_use=True,
    )
    return logger.bind(**bound)
