"""Bodies of requests: read with limits, and parsed as JSON, a form or a query string.

Everything that a client can send wrong is an `ApiError`: too much, too slow, compressed, of another type or
encoding, not JSON, nested too deeply, with unpaired surrogates, NUL, NaN, or numbers without end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import NoReturn, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from seqloom.errors import quoted
from seqloom.serve.config import RequestLimits
from seqloom.serve.errors import ApiError, bad_request

Fields = Mapping[str, object]
M = TypeVar("M", bound=BaseModel)

_FORM, _MULTIPART, _JSON = "application/x-www-form-urlencoded", "multipart/form-data", "application/json"
_NOT_FINITE = re.compile(rb"NaN|Infinity")
_CHARSETS = ("", "utf-8", "utf8", "us-ascii")
_MOST_FILES = 4
_DISCARD_SECONDS = 1.0


async def read_body(request: Request, limits: RequestLimits) -> bytes:
    """Return the body; raise if it is too large, too slow, or compressed."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", ""):
        raise ApiError(415, "Compressed bodies are not supported.", "compressed_body")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 15 or int(declared) > limits.body_bytes):
        await _discard(request)
        raise _too_large(limits)
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > limits.body_bytes:
                    break
                parts.append(part)
    except TimeoutError as error:
        raise ApiError(408, f"The body did not arrive within {limits.body_seconds:g} s.") from error
    except ClientDisconnect as error:
        raise ApiError(400, "The body is incomplete.", "incomplete_body") from error
    if size > limits.body_bytes:
        await _discard(request)
        raise _too_large(limits)
    return b"".join(parts)


async def _discard(request: Request) -> None:
    """Read the rest of a body for a while: many clients read the error only after they have sent everything."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_SECONDS):
            while (message := await request.receive())["type"] == "http.request" and message.get("more_body"):
                pass


def _too_large(limits: RequestLimits) -> ApiError:
    return ApiError(413, f"The body exceeds {limits.body_bytes:,} bytes.", "body_too_large")


async def read_model(request: Request, model: type[M], limits: RequestLimits) -> M:
    """Return the body of a request, which must be JSON, as a model."""
    body = await read_body(request, limits)
    if _content_type(request) not in (_JSON, ""):
        raise ApiError(415, "The content type must be application/json.", "content_type")
    _check_json(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _invalid(error) from error


async def read_fields(request: Request, limits: RequestLimits) -> dict[str, object]:
    """Return the fields of a body in any of the supported forms, and of the query string."""
    body = await read_body(request, limits)
    fields: dict[str, object] = dict(_query(request.url.query.encode("ascii", "replace")))
    kind = _content_type(request)
    if not body and kind != _MULTIPART:
        return fields
    match kind:
        case "application/json" | "":
            fields |= _json_object(body)
        case "application/x-www-form-urlencoded":
            fields |= _query(body)
        case "multipart/form-data":
            fields |= await _multipart(request, body)
        case _:
            raise ApiError(
                415, "The content type must be application/json, a form or multipart.", "content_type"
            )
    return fields


def _content_type(request: Request) -> str:
    """Return the content type; raise for another encoding than UTF-8."""
    kind, _, rest = request.headers.get("content-type", "").partition(";")
    found = re.search(r"charset\s*=\s*\"?([\w.:-]+)", rest, re.IGNORECASE)
    if found and found[1].lower() not in _CHARSETS:
        raise ApiError(415, "The charset must be UTF-8.", "charset")
    return kind.strip().lower()


def _check_json(body: bytes) -> None:
    """Raise for NaN and Infinity, which the parser of pydantic accepts, outside of strings."""
    if _NOT_FINITE.search(body):
        try:
            json.loads(body, parse_constant=_reject_constant)
        except (ValueError, RecursionError) as error:
            raise ApiError(400, "The body is not valid JSON.", "invalid_json") from error


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _json_object(body: bytes) -> dict[str, object]:
    _check_json(body)
    try:
        value = from_json(body)
    except ValueError as error:
        raise ApiError(400, "The body is not valid JSON.", "invalid_json") from error
    if not isinstance(value, dict):
        raise bad_request("The body must be a JSON object.")
    return value


def _query(text: bytes) -> dict[str, object]:
    """Return the fields of a form or a query string; a field that is repeated is a list."""
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=2000)
    except ValueError as error:
        raise bad_request("The form is not valid UTF-8 in percent encoding.", code="invalid_form") from error
    return _grouped(pairs)


def _grouped(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, list[object]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


async def _multipart(request: Request, body: bytes) -> dict[str, object]:
    """Return the fields of a multipart body; a file is an UploadFile."""

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(
        request.headers,
        stream(),
        max_files=_MOST_FILES,
        max_fields=2000,
        max_part_size=len(body) + 1,
    )
    try:
        form = await parser.parse()
    except (MultiPartException, ValueError, KeyError) as error:
        raise bad_request("The multipart body is not valid.", code="invalid_form") from error
    if any(name.startswith("\x00") or "\ufffd" in name for name, _ in form.multi_items()):
        raise bad_request("A field name is not valid.", code="invalid_form")
    return _grouped(form.multi_items())


def text_field(fields: Fields, name: str, default: str = "") -> str:
    """Return a field as text; numbers are accepted, and null is the default."""
    value = fields.get(name)
    if value is None:
        return default
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return str(value)
    raise bad_request(f"{name} must be a text.", name)


def key_field(fields: Fields) -> str:
    """Return the API key among the fields; one client calls it `apiKey`."""
    return text_field(fields, "api_key") or text_field(fields, "apiKey")


def number_field(fields: Fields, name: str, default: int, most: int) -> int:
    """Return a field as an integer from 0 to `most`; a text with a number is accepted."""
    text = text_field(fields, name).strip()
    if not text:
        return default
    if not re.fullmatch(r"\d{1,9}(\.0)?", text, re.ASCII) or (number := int(float(text))) > most:
        raise bad_request(f"{name} must be an integer from 0 to {most}.", name)
    return number


def file_field(fields: Fields, name: str) -> UploadFile:
    """Return an uploaded file."""
    value = fields.get(name)
    if not isinstance(value, UploadFile):
        raise bad_request("Invalid request: missing file parameter", name)
    return value


def check_text(text: str, limits: RequestLimits, param: str) -> None:
    """Raise if a text is too long, or has characters that no model reads."""
    if len(text) > limits.characters:
        raise bad_request(
            f"A text has {len(text):,} characters; the limit is {limits.characters:,}.", param, "text_too_long"
        )
    if "\x00" in text:
        raise bad_request("A text contains the character NUL.", param)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise bad_request("A text contains an unpaired surrogate.", param) from error


def _invalid(error: ValidationError) -> ApiError:
    first = error.errors(include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return ApiError(400, "The body is not valid JSON.", "invalid_json")
    param = ".".join(map(str, first["loc"])) or None
    message = first["msg"][0].lower() + first["msg"][1:]
    if param is None:
        return bad_request(f"Invalid request: {message}.")
    code = "unknown_field" if first["type"] == "extra_forbidden" else "invalid_value"
    return bad_request(f"{quoted(param)}: {message}.", param[:200], code)
