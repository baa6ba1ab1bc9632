"""Events of the library: structlog over the standard `logging`, silent unless the application configures it.

Event names are constants such as `operation.refused`; run, task and rollout are bound where they are known.
"""

import logging

import structlog
from structlog.stdlib import BoundLogger
from structlog.types import Processor

_PROCESSORS: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.filter_by_level,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso"),
    structlog.processors.dict_tracebacks,
    structlog.processors.KeyValueRenderer(key_order=["event"]),
)


def get_log(**bound: object) -> BoundLogger:
    """A logger with fields bound; those bound in the context (run, task, rollout) come with every event."""
    logger: BoundLogger = structlog.wrap_logger(
        logging.getLogger("agentlearn"),
        processors=_PROCESSORS,
        wrapper_class=BoundLogger,
        cache_logger_on_first_use=True,
    )
    return logger.bind(**bound)
