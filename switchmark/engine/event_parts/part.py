"""The base of all parts of an event, and the types of their fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

T = TypeVar("T")


def _refuse_null(value: T) -> T:
    if value is None:
        raise ValueError("null, though a field that does not apply is left out")
    return value


MayLack = Annotated[T | SkipJsonSchema[None], AfterValidator(_refuse_null)]
Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Mac = Annotated[str, Field(pattern=r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$")]
IdleStrategy = Literal["poll", "yield", "sleep", "baton"]


class EventPart(BaseModel):
    """A part of an event: immutable, with the schema's fields and types only, and no NaN."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True
    )

    def as_printed(self) -> dict[str, Any]:
        """The fields as the engine printed them, for a record."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
