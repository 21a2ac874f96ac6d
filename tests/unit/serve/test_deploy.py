"""deploy/: every file has the form that its program expects, and names metrics and options that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import promql_parser
import pytest
import yaml
from compose_spec import PyCompose
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from seqloom.serve.metrics import Metrics
from support.commands import run_command
from support.serving import TestServer

DEPLOY = Path(__file__).parents[3] / "deploy"
TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
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


def read(name: str) -> Any:
    """Return the content of a file of YAML, of which JSON is a part."""
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", sorted(path.name for path in (DEPLOY / "kubernetes").iterdir()))
def test_kubernetes_accepts_the_objects(file: str) -> None:
    kubernetes_validate.validate(read(f"kubernetes/{file}"), "1.30", strict=True)


def test_compose_accepts_its_file() -> None:
    compose = PyCompose.from_yaml((DEPLOY / "compose.yaml").read_text(encoding="utf-8")).to_dict()
    assert all(port.startswith("127.0.0.1:") for one in compose["services"].values() for port in one["ports"])
    with pytest.raises(ValueError, match="restrat"):
        PyCompose.from_yaml("services: {a: {image: b, restrat: always}}")


def test_the_models_of_grafana_hold_the_whole_dashboard() -> None:
    dashboard = read("grafana/dashboard.json")
    known = json.loads(json.dumps(Dashboard.from_json(dashboard), cls=JSONEncoder))
    assert_contains(known, dashboard)
    assert all(panel["targets"] and panel["datasource"] for panel in known["panels"])


def assert_contains(found: Any, expected: Any) -> None:
    """Fail if a value of nested dicts and lists is missing or different."""
    if isinstance(expected, dict):
        assert expected.keys() <= found.keys()
        for name, value in expected.items():
            assert_contains(found[name], value)
    elif isinstance(expected, list):
        for one, other in zip(found, expected, strict=True):
            assert_contains(one, other)
    else:
        assert found == expected


def test_prometheus_accepts_the_rules() -> None:
    jsonschema.validate(read("prometheus/alerts.yaml"), ALERTS)
    prometheus = read("prometheus/prometheus.yaml")
    assert all((DEPLOY / "prometheus" / name).is_file() for name in prometheus["rule_files"])
    (targets,) = (one["static_configs"][0]["targets"] for one in prometheus["scrape_configs"])
    assert {target.split(":")[0] for target in targets} <= set(read("compose.yaml")["services"])


def expressions() -> Iterator[str]:
    """Yield the queries of the alerts and of the dashboard."""
    for group in read("prometheus/alerts.yaml")["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in read("grafana/dashboard.json")["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def metrics_of_the_autoscaler() -> Iterator[str]:
    """Yield the metrics by which Kubernetes chooses the number of replicas."""
    yield from (one["pods"]["metric"]["name"] for one in read("kubernetes/hpa.yaml")["spec"]["metrics"])


def test_queries_are_valid_and_name_metrics_that_exist() -> None:
    for text in expressions():
        promql_parser.parse(text)
    page = Metrics().page().decode()
    known = set(re.findall(r"# TYPE (\w+)", page))
    asked = {
        name
        for text in (*expressions(), *metrics_of_the_autoscaler())
        for name in re.findall(r"seqloom_\w+", text)
    }
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
