"""The JSON schema of what pydantic reads, narrowed to texts that it takes.

Imported only where the program has pydantic.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from sapwood.schema_texts import (
    DURATION,
    FUTURE_YEAR,
    INTEGER,
    NUMBER,
    PAST_YEAR,
    URL,
    YEAR,
    date,
    date_time,
    written,
)

YEARS = {"past": PAST_YEAR, "future": FUTURE_YEAR}


class Narrowed(GenerateJsonSchema):
    def decimal_schema(self, schema: Any) -> JsonSchemaValue:
        """A number: not any string is one, too."""
        number: JsonSchemaValue = super().decimal_schema(schema)["anyOf"][0]
        return number

    def timedelta_schema(self, schema: Any) -> JsonSchemaValue:
        return written(DURATION)

    def date_schema(self, schema: Any) -> JsonSchemaValue:
        year = YEARS.get(schema.get("now_op"))
        return written(date(year)) if year else super().date_schema(schema)

    def datetime_schema(self, schema: Any) -> JsonSchemaValue:
        year, is_naive = YEARS.get(schema.get("now_op")), schema.get("tz_constraint") == "naive"
        if year is None and not is_naive:
            return super().datetime_schema(schema)
        return written(date_time(year or YEAR, "" if is_naive else "Z"))

    def url_schema(self, schema: Any) -> JsonSchemaValue:
        schemes = schema.get("allowed_schemes")
        return written(f"({'|'.join(schemes)}){URL}") if schemes else super().url_schema(schema)

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        found, key = super().dict_schema(schema), schema.get("keys_schema", {}).get("type")
        numbers = {"int": INTEGER, "float": NUMBER, "decimal": NUMBER}
        return found | {"propertyNames": written(numbers[key])} if key in numbers else found
