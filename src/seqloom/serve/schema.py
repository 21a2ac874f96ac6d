"""The OpenAPI document, from the models of requests and responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from seqloom import __version__
from seqloom.serve.openai_api import CompletionRequest
from seqloom.serve.own_models import (
    ObjectError,
    ScoreRequest,
    ScoreResponse,
    TranslateRequest,
    TranslateResponse,
)

_FORM_TYPES = ("application/json", "application/x-www-form-urlencoded")


class Operation(NamedTuple):
    """A method of a route, and what it reads and returns."""

    method: str
    path: str
    summary: str
    response: type[BaseModel] | None
    request: type[BaseModel] | None = None
    errors: tuple[int, ...] = ()
    types: tuple[str, ...] = ("application/json",)
    path_parameters: tuple[str, ...] = ()


class TextError(BaseModel):
    """Error."""

    error: str


class Keyed(BaseModel):
    """Request with an API key."""

    api_key: Annotated[str | None, Field(description="API key")] = None


class TranslateFields(Keyed):
    """Request of /translate."""

    q: str | list[str]
    source: Annotated[str, Field(description="code of the source language, or auto")]
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0)] = 0


class DetectedLanguage(BaseModel):
    """Language of a text."""

    confidence: Annotated[float, Field(ge=0, le=100)]
    language: str


class TranslateResult(BaseModel):
    """Response of /translate."""

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None
    alternatives: list[str] | list[list[str]] | None = None


class DetectFields(Keyed):
    """Request of /detect."""

    q: str


class SuggestFields(Keyed):
    """Request of /suggest."""

    q: str
    s: str
    source: str
    target: str


class FileFields(Keyed):
    """Request of /translate_file."""

    file: Annotated[str, Field(json_schema_extra={"format": "binary"})]
    source: str
    target: str


class FileResult(BaseModel):
    """Response of /translate_file."""

    translatedFileUrl: str


class Success(BaseModel):
    """Response of /suggest."""

    success: bool


_ANY_ERRORS = (400, 403, 408, 413, 415, 429, 500, 503)
_OWN_ERRORS = (*_ANY_ERRORS, 404, 504)
OPERATIONS = (
    Operation(
        "post",
        "/translate",
        "Translate texts",
        TranslateResult,
        TranslateFields,
        (*_ANY_ERRORS, 504),
        _FORM_TYPES,
    ),
    Operation("post", "/detect", "Detect a language", None, DetectFields, _ANY_ERRORS, _FORM_TYPES),
    Operation("get", "/languages", "List the languages", None),
    Operation("get", "/frontend/settings", "Settings of a web page", None),
    Operation(
        "post", "/suggest", "Suggest a better translation", Success, SuggestFields, _ANY_ERRORS, _FORM_TYPES
    ),
    Operation(
        "post",
        "/translate_file",
        "Translate a file",
        FileResult,
        FileFields,
        (*_ANY_ERRORS, 504),
        ("multipart/form-data",),
    ),
    Operation("get", "/download_file/{name}", "Download a translated file", None, None, (404,), (), ("name",)),
    Operation(
        "post", "/v1/translate", "Translate with all options", TranslateResponse, TranslateRequest, _OWN_ERRORS
    ),
    Operation("post", "/v1/score", "Score given targets", ScoreResponse, ScoreRequest, _OWN_ERRORS),
    Operation("post", "/v1/completions", "Complete prompts", None, CompletionRequest, _OWN_ERRORS),
    Operation("get", "/v1/models", "List the models", None, errors=(403, 429)),
    Operation("get", "/v1/models/{name}", "Describe a model", None, None, (403, 404, 429, 503), (), ("name",)),
    Operation("get", "/health", "Liveness", None),
    Operation("get", "/ready", "Readiness", None, errors=(503,)),
)


def api_schema() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the server."""
    models: set[type[BaseModel]] = {TextError, ObjectError}
    models |= {one for operation in OPERATIONS for one in (operation.request, operation.response) if one}
    ordered = sorted(models, key=lambda one: one.__name__)
    references, definitions = models_json_schema(
        [(one, "validation") for one in ordered], ref_template="#/components/schemas/{model}"
    )
    schemas = {one: references[one, "validation"] for one in ordered}
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        error = schemas[ObjectError if operation.path.startswith("/v1/") else TextError]
        paths.setdefault(operation.path, {})[operation.method] = _described(operation, schemas, error)
    return {
        "openapi": "3.1.0",
        "info": {"title": "seqloom", "version": __version__},
        "paths": paths,
        "components": {"schemas": definitions.get("$defs", {})},
    }


def _described(operation: Operation, schemas: dict[type[BaseModel], Any], error: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"summary": operation.summary, "responses": {}}
    if operation.path_parameters:
        found["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in operation.path_parameters
        ]
    if operation.request is not None:
        content = {kind: {"schema": schemas[operation.request]} for kind in operation.types}
        found["requestBody"] = {"required": True, "content": content}
    success: dict[str, Any] = {"description": "Success"}
    if operation.response is not None:
        success["content"] = {"application/json": {"schema": schemas[operation.response]}}
    found["responses"]["200"] = success
    for status in operation.errors:
        content = {"application/json": {"schema": error if operation.path != "/ready" else {}}}
        found["responses"][str(status)] = {"description": "Error", "content": content}
    return found
