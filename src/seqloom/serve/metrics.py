"""Metrics for Prometheus. No label contains a key, an address or a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from seqloom.serve.jobs import BatchResult

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters and histograms of a server, in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the page
        self._registry = own = CollectorRegistry()
        self.requests = Counter("seqloom_requests_total", "Requests.", ("route", "model", "code"), registry=own)
        self.request_seconds = Histogram(
            "seqloom_request_seconds",
            "Time from a request to its complete response.",
            ("route",),
            registry=own,
            buckets=_SECONDS,
        )
        self.queue_seconds = Histogram(
            "seqloom_queue_seconds", "Waiting time of sentences.", ("model",), registry=own, buckets=_SECONDS
        )
        self._depth = Gauge("seqloom_queue_depth", "Sentences that wait.", ("model",), registry=own)
        self.batch_sentences = Histogram(
            "seqloom_batch_sentences", "Sentences per batch.", ("model",), registry=own, buckets=_SENTENCES
        )
        self.batch_seconds = Histogram(
            "seqloom_batch_seconds", "Decoding time of batches.", ("model",), registry=own, buckets=_SECONDS
        )
        self.first_token_seconds = Histogram(
            "seqloom_time_to_first_token_seconds",
            "Time to the first token of streaming responses.",
            ("model",),
            registry=own,
            buckets=_SECONDS,
        )
        self.source_tokens = Counter(
            "seqloom_source_tokens_total", "Source tokens of decoded sentences.", ("model",), registry=own
        )
        self.target_tokens = Counter(
            "seqloom_target_tokens_total", "Target tokens of decoded sentences.", ("model",), registry=own
        )
        self.refused = Counter("seqloom_refused_total", "Refused requests.", ("reason",), registry=own)
        self.restarts = Counter(
            "seqloom_worker_restarts_total", "Restarts of workers.", ("model",), registry=own
        )

    def add_model(self, name: str, depth: Callable[[], int]) -> ModelMetrics:
        """Return the metrics of a model; `depth` is its number of waiting sentences."""
        self._depth.labels(name).set_function(depth)
        return ModelMetrics(self, name)

    def page(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class ModelMetrics:
    """Metrics of one model; an `Observer` of its scheduler."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._queue_seconds = metrics.queue_seconds.labels(name)
        self._sentences = metrics.batch_sentences.labels(name)
        self._seconds = metrics.batch_seconds.labels(name)
        self._source_tokens = metrics.source_tokens.labels(name)
        self._target_tokens = metrics.target_tokens.labels(name)
        self._restarts = metrics.restarts.labels(name)
        self.first_token_seconds = metrics.first_token_seconds.labels(name)

    def batch(self, waits: Sequence[float], result: BatchResult) -> None:
        """Record a finished batch and the time that each of its items waited."""
        for seconds in waits:
            self._queue_seconds.observe(seconds)
        self._sentences.observe(len(waits))
        self._seconds.observe(result.seconds)
        self._source_tokens.inc(result.source_tokens)
        self._target_tokens.inc(result.target_tokens)

    def restarted(self) -> None:
        """Count a restart of the worker."""
        self._restarts.inc()
