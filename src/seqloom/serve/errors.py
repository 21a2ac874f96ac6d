"""Errors of requests, in the form of each API."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Literal

from starlette.responses import Response

from seqloom.serve.jobs import Unavailable
from seqloom.strict_json import json_text

ErrorForm = Literal["text", "object"]  # {"error": "..."} of LibreTranslate, or {"error": {...}}

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """Error with a status code; `code` is a word for programs, `param` the field that is wrong."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str = "",
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param = status, message, param
        self.code = code or HTTPStatus(status).phrase.lower().replace(" ", "_")
        self.retry_after = retry_after

    @property
    def type(self) -> str:
        """Class of the error, as in the API of OpenAI."""
        return _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")

    def as_object(self) -> dict[str, object]:
        """Return the error as an object."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}

    def response(self, form: ErrorForm) -> Response:
        """Return the error in the form of an API."""
        headers = {} if self.retry_after is None else {"Retry-After": str(math.ceil(self.retry_after))}
        if self.status in (408, 413):
            headers["Connection"] = "close"  # the rest of the body is not read
        return json_response(
            {"error": self.message} if form == "text" else self.as_object(), self.status, headers
        )


def bad_request(message: str, param: str | None = None, code: str = "invalid_value") -> ApiError:
    """Return an error for a wrong field."""
    return ApiError(400, message, code, param)


def unavailable(error: Unavailable) -> ApiError:
    """Return the error for work that cannot be done now."""
    return ApiError(503, error.message, error.reason, retry_after=error.retry_after)


def timed_out(seconds: float) -> ApiError:
    """Return the error for a request that took too long."""
    return ApiError(504, f"The request took longer than {seconds:g} s.", "timeout")


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value as JSON; numbers that are not finite become null."""
    return Response(json_text(value), status, headers, media_type="application/json")
