"""`FrontFile`: a front as JSON, strict about its shape."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from emsco_train.designs.design import Design, design_id
from emsco_train.errors import DataError
from emsco_train.support.validation_errors import first_error

__all__ = ["FrontFile"]


class FrontFile(BaseModel):
    """The document; `version` rises with every change of its shape."""

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal["emsco-front"] = "emsco-front"
    version: Literal[1] = 1
    unit: str
    full_cost: Annotated[float, Field(gt=0)]
    offset: Annotated[float, Field(ge=0)]
    designs: tuple[Design, ...]

    def text(self) -> str:
        """Return the JSON; numbers read back as they are."""
        return self.model_dump_json(indent=1)

    @classmethod
    def read(cls, text: str | bytes) -> FrontFile:
        """Read JSON; one error tells the place of the first fault."""
        try:
            file = cls.model_validate_json(text)
        except ValidationError as error:
            fault = first_error(error)
            raise DataError(f"front: {fault.path}: {fault.message}. Give what Front.to_json wrote") from None
        for position, design in enumerate(file.designs):
            if design.id != design_id(design.stages, design.thresholds):
                raise DataError(f"front: designs.{position}.id is {design.id!r}, not that of its stages and thresholds")
        return file
