"""Values that campaigns and records write as text, and that have parts.

Such a value is its text: it is equal to it, records store it, and ids of trials hash it. The parts
are read from the text once, when a caller needs them first. Records of other versions can contain
texts without a meaning here; they fail only if their parts are needed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


class WrittenValue(str):
    """A text with parts. Subclasses read the parts in cached properties."""

    form: ClassVar[str | None] = None  # a regular expression for all texts; None: any text

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the value of this text. Equal texts share one value and its parts."""
        return text if isinstance(text, cls) else _shared(cls, str(text))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a text of this form. The helper on another host has no pydantic."""
        from pydantic_core import core_schema

        text = core_schema.str_schema(pattern=cls.form)
        return core_schema.no_info_after_validator_function(cls.of, text)


@lru_cache(maxsize=16_384)
def _shared(cls: type[Any], text: str) -> Any:
    return cls(text)
