"""The OpenAPI 3.1 document, put together from the operations, the bodies, and the parameters behind a `?`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from services.gateway.errors import is_anthropics
from services.gateway.openapi.bodies import BODIES
from services.gateway.openapi.body_schema import REF, Json, or_null, ref
from services.gateway.openapi.operations import EVENTS, OPERATIONS, Operation
from services.gateway.openapi.replies import AnthropicError, Error
from services.gateway.query import query_type


def document(version: str, paths: Iterable[str], models: Sequence[str]) -> Json:
    """Args:
    paths: those that are served; the others are left out.
    models: the names that the model goes by.
    """
    served = frozenset(paths)
    operations = [operation for operation in OPERATIONS if operation.path in served]
    by_path: dict[str, Json] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sapwood", "version": version},
        "security": [{}, {"bearer": []}, {"key": []}],
        "paths": by_path,
        "components": {
            "schemas": {**_bodies(models), **_reply_schemas(operations)},
            "headers": {"x-request-id": {"schema": {"type": "string"}, "required": True}},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def _bodies(models: Sequence[str]) -> Json:
    return {
        name: _naming(body, models) if "model" in body.get("properties", {}) else body for name, body in BODIES.items()
    }


def _naming(body: Json, models: Sequence[str]) -> Json:
    name: Json = {"enum": models}
    model = name if "model" in body.get("required", []) else or_null(name)
    return body | {"properties": body["properties"] | {"model": model}}


def _reply_schemas(operations: Sequence[Operation]) -> Json:
    types = [kind for each in operations for kind in (each.reply, each.event) if kind is not None]
    _, components = msgspec.json.schema_components([*types, Error, AnthropicError], ref_template=REF)
    return components


def _schema(kind: Any) -> Json:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REF)
    return schema


def _operation(operation: Operation) -> Json:
    body = {"required": True, "content": _json(ref(operation.body))} if operation.body is not None else None
    parts = {
        "summary": operation.summary,
        "operationId": _operation_id(operation),
        "tags": [operation.tag],
        "parameters": [*_path_parameters(operation.path), *_query_parameters(operation.path)],
        "requestBody": body,
        "responses": _responses(operation),
    }
    return {name: part for name, part in parts.items() if part}


def _operation_id(operation: Operation) -> str:
    return "_".join(re.findall(r"\w+", f"{operation.method.lower()} {operation.path}"))


def _path_parameters(path: str) -> list[Json]:
    schema = {"type": "string", "minLength": 1}
    names = re.findall(r"{(\w+)}", path)
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def _query_parameters(path: str) -> list[Json]:
    struct = query_type(path)
    properties = msgspec.json.schema(struct)["$defs"][struct.__name__]["properties"]
    return [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]


def _responses(operation: Operation) -> Json:
    content = _content(operation)
    errors = _json(_error(operation))
    well = {status: _response(status, content) for status in (200, *operation.unwell)}
    failed = {status: _response(status, errors) for status in sorted(operation.errors)}
    return {str(status): response for status, response in (well | failed).items()}


def _content(operation: Operation) -> Json:
    if operation.reply is None:
        text = {"type": "string"}
        return {operation.media_type: {"schema": _event(text) if operation.media_type == EVENTS else text}}
    stream = {EVENTS: {"schema": _events(operation)}} if operation.event is not None else {}
    return _json(_schema(operation.reply)) | stream


def _events(operation: Operation) -> Json:
    """OpenAPI 3.1 has no words for streams: as in 3.2, this is the schema of each event."""
    content = {"anyOf": [_schema(operation.event), _error(operation)]}
    event = {"type": "string", "contentMediaType": "application/json", "contentSchema": content}
    data = event if operation.named_events else {"anyOf": [event, {"const": "[DONE]"}]}
    return _event(data)


def _event(data: Json) -> Json:
    return {
        "description": "Each of the server-sent events.",
        "type": "object",
        "properties": {"event": {"type": "string"}, "data": data},
        "required": ["data"],
    }


def _error(operation: Operation) -> Json:
    return ref((AnthropicError if is_anthropics(operation.path) else Error).__name__)


def _json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _response(status: int, content: Json) -> Json:
    header = {"x-request-id": {"$ref": "#/components/headers/x-request-id"}}
    return {"description": HTTPStatus(status).phrase, "headers": header, "content": content}
