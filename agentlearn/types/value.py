"""The base class of the data types: a frozen value that refuses unknown fields and is cheap to import."""

from pydantic import BaseModel, ConfigDict, ValidationError


class Value(BaseModel):
    """A frozen pydantic model. Its schema is built on first use (`defer_build`), so that importing stays cheap."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="constants")


def first_fault(error: ValidationError, whole: str = "it") -> str:
    """The first thing that is wrong with a value: `FIELD: why`. whole: what is named where it is no single field."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg'].removeprefix('Value error, ')}"
