"""Options of the server, `serve.yaml`; those of the command line replace them."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from seqloom.errors import SeqloomError
from seqloom.run.config import read_yaml
from seqloom.serve.jobs import ModelSpec
from seqloom.settings import Settings


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Folders = Annotated[tuple[str, ...], BeforeValidator(_one_or_many)]


class RequestLimits(Settings):
    """Limits on requests. A request that exceeds one gets an error and costs the server little."""

    body_bytes: int = Field(1_000_000, ge=1, description="bytes per request body")
    texts: int = Field(1000, ge=1, description="texts per request")
    characters: int = Field(50_000, ge=1, description="characters per text")
    beam: int = Field(20, ge=1, description="beam size and number of alternatives")
    queue: int = Field(4096, ge=1, description="sentences that wait for a model")
    seconds: float = Field(60.0, gt=0, description="seconds per request")
    requests_per_minute: int = Field(600, ge=1, description="requests per API key, or per foreign address")
    connections: int = Field(256, ge=1, description="open connections")
    body_seconds: float = Field(30.0, gt=0, description="seconds until the headers or the body have arrived")
    drain_seconds: float = Field(25.0, gt=0, description="seconds for accepted requests after SIGTERM")


class ServeConfig(Settings):
    """Options of `seqloom serve`."""

    models: Mapping[str, Folders] = Field(
        {}, description="run directories by name; a name such as en-de is a language pair; several: an ensemble"
    )
    host: str = Field("127.0.0.1", description="address to bind to")
    port: int = Field(5000, ge=0, le=65535, description="port; 0 = chosen by the system")
    engine: str = Field("auto", description="decoding engine: torch, ctranslate2 or auto")
    device: str = Field("auto", description="device: auto, cpu or cuda")
    threads: int | None = Field(None, ge=1, description="threads per model")
    api_keys: str | None = Field(None, description="file with one API key per line; reread on SIGHUP")
    no_auth: bool = Field(False, description="serve foreign addresses without API keys")
    suggestions: str | None = Field(None, description="table (.tsv or .jsonl) to which /suggest appends")
    cors: bool = Field(False, description="allow requests from web pages of other origins")
    trusted_proxies: str | None = Field(
        None, description="addresses of proxies whose X-Forwarded-For names the client, separated by commas"
    )
    follow: bool = Field(False, description="load a new best checkpoint as soon as the run has one")
    shadow: str | None = Field(None, description="run that translates a part of the texts for comparison")
    shadow_share: float = Field(0.1, gt=0, le=1, description="fraction of the requests to compare")
    shadow_report: str = Field("shadow.html", description="page on which the disagreements are written")
    limits: RequestLimits = Field(RequestLimits.model_validate({}), description="limits on requests")

    @classmethod
    def compose(cls, file: Path | None, given: Mapping[str, Any]) -> ServeConfig:
        """Return the options of a YAML file, replaced by those of the command line that are not None."""
        tree = {} if file is None else read_yaml(file)
        values = {**tree, **{name: value for name, value in given.items() if value is not None}}
        config = cls.checked(values, "serve", str(file) if file else "the options")
        config.check()
        return config

    def check(self) -> None:
        """Raise if the options contradict each other or name a run that does not exist."""
        if not self.models:
            raise SeqloomError("There is no model to serve.", "e.g. seqloom serve runs/x")
        if not self.is_local and self.api_keys is None and not self.no_auth:
            raise SeqloomError(
                f"Everybody who can reach {self.host} could use the server.",
                "give --api-keys FILE, or --no-auth if that is intended",
            )
        if self.shadow is not None and len(self.models) > 1:
            raise SeqloomError("A shadow model is compared with one model.", "serve one run with --shadow")
        for folder in [*chain.from_iterable(self.models.values()), *filter(None, [self.shadow])]:
            if not (Path(folder) / "config.yaml").is_file():
                raise SeqloomError(f"{folder} is not a run directory.", "train one with seqloom train")
        if self.suggestions is not None and Path(self.suggestions).suffix not in (".tsv", ".jsonl"):
            raise SeqloomError(
                f"{self.suggestions} is not the name of a table.", "give a file that ends in .tsv or .jsonl"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    def specs(self, imports: tuple[str, ...] = ()) -> list[ModelSpec]:
        """Return what the worker of each model needs."""
        return [
            ModelSpec(name, tuple(folders), self.engine, self.device, self.threads, imports=imports)
            for name, folders in self.models.items()
        ]


def models_of(arguments: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the run directories by name from arguments such as `en-de=runs/a` or `runs/x`."""
    models: dict[str, tuple[str, ...]] = {}
    for argument in arguments:
        name, separator, folders = argument.partition("=")
        if not separator:
            name, folders = Path(argument).name or Path(argument).resolve().name, argument
        if not name or not all(paths := folders.split(",")):
            raise SeqloomError(f"{argument!r} is not a model.", "e.g. en-de=runs/a, or runs/a")
        if name in models:
            raise SeqloomError(f"Two models are called {name!r}.", "name them: a=runs/x b=other/x")
        models[name] = tuple(paths)
    return models


def is_loopback(host: str) -> bool:
    """Return whether an address belongs to this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
