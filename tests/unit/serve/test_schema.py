"""The OpenAPI document: schemathesis sends what it allows and what it forbids, and checks every response."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks

from seqloom.serve.schema import OPERATIONS, api_schema
from support.serving import TestServer

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(api_schema())


@pytest.mark.parametrize("examples", [4, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("place", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_every_response_is_documented(server: TestServer, place: Any, examples: int) -> None:
    operation = SCHEMA[place.path][place.method.upper()]
    cases = st.one_of(
        operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
        operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
    )

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def check(case: Any) -> None:
        case.call_and_validate(base_url=server.url, checks=CHECKS)

    check()
