"""The operations of the HTTP interface as a table, from which routes, checks and the OpenAPI document are made."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msmq.web.people import Role

Schema = dict[str, Any]

NUMBER64: Final[Schema] = {"type": "string", "pattern": "^[0-9]{1,20}$"}
"""64-bit numbers are text, because JavaScript and many others have no such numbers."""
TEXT: Final[Schema] = {"type": "string"}
BOOLEAN: Final[Schema] = {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the path or in the query of a URL."""

    name: str
    schema: Schema
    description: str
    required: bool = False
    place: str = "query"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation."""

    method: str
    path: str
    summary: str
    role: Role | None
    """The role that it needs; None for everybody."""
    handler: Callable[..., Awaitable[Any]]
    parameters: tuple[Parameter, ...]
    body: Schema | None
    reply: Schema | None
    """The schema of the answer; None if it is not JSON."""
    kind: str
    """The media type of the answer."""
    status: int
    tag: str
    loose: bool = False
    """True if it accepts parameters that the table does not list."""
    other_forms: Mapping[str, Callable[[bytes], Any]] = field(default_factory=dict)
    """Functions that read a body that is not JSON, by media type."""

    @property
    def name(self) -> str:
        return self.handler.__name__


@dataclass(slots=True)
class Table:
    """The operations, in the order of the document."""

    operations: list[Operation] = field(default_factory=list)

    def add(
        self,
        method: str,
        path: str,
        summary: str,
        *,
        role: Role | None,
        parameters: tuple[Parameter, ...] = (),
        body: Schema | None = None,
        reply: Schema | None = None,
        kind: str = "application/json",
        status: int = 200,
        loose: bool = False,
        other_forms: Mapping[str, Callable[[bytes], Any]] | None = None,
    ) -> Callable[[Callable[..., Awaitable[Any]]], Callable[..., Awaitable[Any]]]:
        """Register a function as an operation; a decorator."""

        def enter(handler: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
            inside = tuple(
                Parameter(name, _IN_PATH.get(name, TEXT), _NAMES.get(name, name), True, "path")
                for name in re.findall(r"{(\w+)}", path)
            )
            tag = path.split("/")[2] if path.count("/") > 1 else "console"
            self.operations.append(
                Operation(
                    method,
                    path,
                    summary,
                    role,
                    handler,
                    (*inside, *parameters),
                    body,
                    reply,
                    kind,
                    status,
                    tag,
                    loose,
                    other_forms or {},
                )
            )
            return handler

        return enter


_IN_PATH: Final[dict[str, Schema]] = {
    "lookup_id": NUMBER64,
    "digest": {"type": "string", "pattern": "^([0-9a-fA-F]{2}){16}$"},
}
_NAMES: Final = {
    "queue": "Path or format name of a queue; a slash in it is written %2F.",
    "lookup_id": "Place of a message in its queue.",
    "name": "Its name.",
    "job": "Number of a job.",
    "digest": "MD5 of a certificate, as the list has it.",
}


# --- checking -----------------------------------------------------------------------------------------------------


class MisuseError(ValueError):
    """A request that does not conform to the document."""


_KINDS: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def check(value: Any, schema: Schema, place: str) -> None:
    """Raise MisuseError unless a value conforms to its schema; handles the part of JSON Schema that this interface
    uses."""
    kinds = schema.get("type")
    if kinds is not None:
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not any(_KINDS[kind](value) for kind in kinds):
            raise MisuseError(f"{place} is not of type {' or '.join(kinds)}.")
    if "enum" in schema and value not in schema["enum"]:
        raise MisuseError(f"{place} is none of {', '.join(map(str, schema['enum']))}.")
    if isinstance(value, str):
        _check_text(value, schema, place)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            raise MisuseError(
                f"{place} is {value}; it goes from {schema.get('minimum')} to {schema.get('maximum')}."
            )
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            raise MisuseError(f"{place} has {len(value)} members.")
        for index, member in enumerate(value):
            check(member, schema.get("items", {}), f"{place}[{index}]")
    elif isinstance(value, dict):
        _check_object(value, schema, place)


def _check_text(value: str, schema: Schema, place: str) -> None:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        raise MisuseError(f"{place} has {len(value)} characters.")
    if "pattern" in schema and re.search(schema["pattern"], value) is None:
        raise MisuseError(f"{place} does not look like {schema['pattern']}.")


def _check_object(value: dict[str, Any], schema: Schema, place: str) -> None:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            raise MisuseError(f"{place} lacks {name}.")
    for name, member in value.items():
        if name in known:
            check(member, known[name], f"{place}.{name}")
        elif schema.get("additionalProperties") is False:
            raise MisuseError(f"{place}.{name} is unknown.")
        elif isinstance(schema.get("additionalProperties"), dict):
            check(member, schema["additionalProperties"], f"{place}.{name}")


def from_text(text: str, schema: Schema, name: str) -> Any:
    """Parse the value of a parameter, which is text in a URL."""
    value: Any = text
    kind = schema.get("type")
    if kind == "integer":
        if re.fullmatch(r"-?[0-9]{1,20}", text, re.ASCII) is None:
            raise MisuseError(f"{name} is no number.")
        value = int(text)
    elif kind == "boolean":
        if text not in ("true", "false"):
            raise MisuseError(f"{name} is neither true nor false.")
        value = text == "true"
    elif kind == "array":
        value = [each for each in text.split(",") if each]
    check(value, schema, name)
    return value


# --- the document -------------------------------------------------------------------------------------------------

PROBLEM: Final[Schema] = {
    "type": "object",
    "required": ["status", "title"],
    "properties": {
        "status": {"type": "integer"},
        "title": TEXT,
        "detail": TEXT,
        "code": TEXT,
        "name": TEXT,
        "advice": TEXT,
    },
}
HOST: Final = Parameter(
    "host", {"type": "string", "maxLength": 256}, "Which queue manager; the first when not given."
)
_PROBLEMS: Final = {
    400: "The request is not as the document says, or the queue manager refused it.",
    401: "Nobody is logged in.",
    403: "Whoever is logged in may not do this.",
    404: "There is no such thing.",
    409: "It is there already, or in use.",
    412: "It has changed since it was read.",
    413: "The body is too large.",
    415: "The body is no JSON.",
    429: "Too many requests.",
    503: "The queue manager does not answer.",
}


def document(table: Table, version: str) -> dict[str, Any]:
    """Make the OpenAPI document of all operations."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in table.operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "OpenMSMQ",
            "version": version,
            "description": "Everything that `msmq` does, over HTTP. Numbers of 64 bits are text.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "msmq_session"},
            },
        },
    }


def _described(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {operation.kind: {"schema": operation.reply} if operation.reply else {}}
    answers: dict[str, Any] = {str(operation.status): {"description": "Done."}}
    if operation.status != 204:
        answers[str(operation.status)]["content"] = content
    if operation.method == "GET" and operation.reply is not None:
        answers["304"] = {"description": "It is as it was."}
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    answers |= {str(code): {"description": text, "content": problem} for code, text in _PROBLEMS.items()}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": answers,
        "parameters": [
            {
                "name": each.name,
                "in": each.place,
                "required": each.required,
                "description": each.description,
                "schema": each.schema,
                **({"style": "form", "explode": False} if each.schema.get("type") == "array" else {}),
            }
            for each in operation.parameters
        ],
        "security": [{"token": []}, {"session": []}] if operation.role is not None else [],
    }
    if operation.role is not None:
        described["x-role"] = operation.role.name.lower()
    if operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {
                kind: {"schema": operation.body} for kind in ("application/json", *operation.other_forms)
            },
        }
    return described
