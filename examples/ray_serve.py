"""The application of `seqloom serve` under Ray Serve, with replicas on the machines of a cluster.

    pip install 'seqloom[serve,fast]' 'ray[serve]'
    python examples/ray_serve.py en-de=runs/x --replicas 2

Each replica loads the models from the same paths, so these must be on a file system that all machines share.
The proxy of Ray listens on port 8000 and sends each request to a replica with few requests.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from starlette.types import ASGIApp

from seqloom.serve.app import build
from seqloom.serve.config import ServeConfig, models_of


def application(models: Sequence[str], api_keys: str | None = None) -> ASGIApp:
    """Return the application; it loads the models when its lifespan begins."""
    config = ServeConfig.compose(None, {"models": models_of(list(models)), "api_keys": api_keys})
    app, _ = build(config)
    return app


def main() -> None:
    """Serve until Ctrl-C."""
    from ray import serve

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="+", metavar="[NAME=]RUN")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--processors", type=float, default=1, help="processors per replica")
    parser.add_argument("--api-keys", help="file with one API key per line")
    options = parser.parse_args()
    deployment = serve.deployment(
        serve.ingress(lambda: application(options.models, options.api_keys))(),
        name="seqloom",
        num_replicas=options.replicas,
        max_ongoing_requests=256,
        ray_actor_options={"num_cpus": options.processors},
    )
    serve.run(deployment.bind(), blocking=True)


if __name__ == "__main__":
    main()
