"""deploy/: every file has the form that its program expects, and names metrics and options that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from seqloom.serve.metrics import Metrics
from support.commands import run_command
from support.serving import TestServer

DEPLOY = Path(__file__).parents[3] / "deploy"
TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
ALERTS = {
    "type": "object",
    "required": ["groups"],
    "additionalProperties": False,
    "properties": {
        "groups": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["name", "rules"],
                "additionalProperties": False,
                "properties": {
                    "name": TEXT,
                    "interval": TEXT,
                    "rules": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["alert", "expr", "labels", "annotations"],
                            "additionalProperties": False,
                            "properties": {
                                "alert": {"type": "string", "pattern": "^[A-Z][A-Za-z]+$"},
                                "expr": TEXT,
                                "for": {"type": "string", "pattern": r"^\d+[smh]$"},
                                "labels": {"type": "object", "additionalProperties": TEXT},
                                "annotations": {"type": "object", "additionalProperties": TEXT},
                            },
                        },
                    },
                },
            },
        }
    },
}
COMPOSE = {
    "type": "object",
    "required": ["services"],
    "additionalProperties": False,
    "properties": {
        "services": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "anyOf": [{"required": ["image"]}, {"required": ["build"]}],
                "additionalProperties": False,
                "properties": {
                    "image": TEXT,
                    "build": {
                        "type": "object",
                        "required": ["context"],
                        "additionalProperties": False,
                        "properties": {"context": TEXT, "dockerfile": TEXT, "args": {"type": "object"}},
                    },
                    "command": TEXTS,
                    "ports": {
                        "type": "array",
                        "items": {"type": "string", "pattern": r"^127\.0\.0\.1:\d+:\d+$"},
                    },
                    "volumes": TEXTS,
                    "read_only": {"type": "boolean"},
                    "tmpfs": TEXTS,
                    "cap_drop": TEXTS,
                    "security_opt": TEXTS,
                    "environment": {"type": "object", "additionalProperties": TEXT},
                    "stop_grace_period": {"type": "string", "pattern": r"^\d+s$"},
                    "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
                    "healthcheck": {
                        "type": "object",
                        "required": ["test"],
                        "additionalProperties": False,
                        "properties": {"test": TEXTS, "interval": TEXT, "timeout": TEXT, "start_period": TEXT},
                    },
                },
            },
        }
    },
}
DASHBOARD = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "panels", "templating"],
    "properties": {
        "schemaVersion": {"type": "integer", "minimum": 30},
        "panels": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["id", "type", "title", "gridPos", "datasource", "targets"],
                "properties": {
                    "gridPos": {
                        "type": "object",
                        "required": ["h", "w", "x", "y"],
                        "properties": {"w": {"maximum": 24}, "x": {"maximum": 23}},
                    },
                    "targets": {
                        "type": "array",
                        "minItems": 1,
                        "items": {
                            "type": "object",
                            "required": ["refId", "expr"],
                            "properties": {"expr": TEXT},
                        },
                    },
                },
            },
        },
    },
}


def read(name: str) -> Any:
    """Return the content of a file of YAML, of which JSON is a part."""
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", sorted(path.name for path in (DEPLOY / "kubernetes").iterdir()))
def test_kubernetes_accepts_the_objects(file: str) -> None:
    kubernetes_validate.validate(read(f"kubernetes/{file}"), "1.30", strict=True)


@pytest.mark.parametrize(
    ("file", "schema"),
    [("prometheus/alerts.yaml", ALERTS), ("compose.yaml", COMPOSE), ("grafana/dashboard.json", DASHBOARD)],
)
def test_other_files_have_their_form(file: str, schema: dict[str, Any]) -> None:
    jsonschema.validate(read(file), schema)


def expressions() -> Iterator[str]:
    """Yield the queries of the alerts and of the dashboard, and the metric of the autoscaler."""
    for group in read("prometheus/alerts.yaml")["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in read("grafana/dashboard.json")["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (one["pods"]["metric"]["name"] for one in read("kubernetes/hpa.yaml")["spec"]["metrics"])


def test_queries_name_metrics_that_exist() -> None:
    page = Metrics().page().decode()
    known = set(re.findall(r"# TYPE (\w+)", page))
    asked = {name for text in expressions() for name in re.findall(r"seqloom_\w+", text)}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked} <= known
    assert len(asked) > 8


def test_probes_name_routes_and_containers_name_options_that_exist(server: TestServer) -> None:
    (container,) = read("kubernetes/deployment.yaml")["spec"]["template"]["spec"]["containers"]
    for probe in ("livenessProbe", "readinessProbe"):
        assert server.get(container[probe]["httpGet"]["path"]).status == 200
    help_text = run_command("serve", "--help").out
    docker = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    command = json.loads(re.findall(r"^CMD (.*)$", docker, re.MULTILINE)[0])
    assert command == container["args"]
    assert all(word in help_text for word in command if word.startswith("--"))
    assert re.search(r"^USER 10001$", docker, re.MULTILINE)
