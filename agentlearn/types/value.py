"""The base class of the data types: a frozen value that refuses unknown fields and is cheap to import."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen pydantic model. Its schema is built on first use (`defer_build`), so that importing stays cheap."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="constants")
