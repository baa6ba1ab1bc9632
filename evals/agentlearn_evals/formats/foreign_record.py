"""Objects in logs of other programs: only the fields that are used here are declared and checked."""

from typing import TypeVar

from pydantic import ConfigDict, ValidationError

from agentlearn.errors import DataError
from agentlearn.types.value import Value
from agentlearn_evals.formats.fields import abbreviate


class ForeignRecord(Value):
    """An object of a log; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


_RecordT = TypeVar("_RecordT", bound=ForeignRecord)


def parse_record(kind: type[_RecordT], value: object, place: str, *, advice: str = "write the log again") -> _RecordT:
    """Return the value as a record. Raises DataError for the first bad field.

    place: file, and member or sample, for the message. advice: the next step in the message.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "object"
        raise DataError(
            f"{place} has {abbreviate(first['input'])} as {field} ({first['msg']}); {advice}", code="bad_log"
        ) from error
