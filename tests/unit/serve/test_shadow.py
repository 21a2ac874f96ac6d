"""A shadow model: it translates off the path, and the page shows where it disagrees."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seqloom import SeqloomError
from seqloom.serve.app import build
from seqloom.serve.config import ServeConfig
from seqloom.serve.jobs import BatchResult, ModelSpec, Output
from seqloom.types import Hypothesis
from support.serving import TRANSFORMER, CopyingProcess, copying_server


def test_disagreements_are_written_and_requests_do_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    original = CopyingProcess.run

    async def run(
        self: CopyingProcess, task: object, items: list[object], on_partial: object = None
    ) -> BatchResult:
        if self.spec.name != "shadow":
            return await original(self, task, items, on_partial)  # type: ignore[arg-type]
        await self.gate.wait()
        texts = [item.source.replace("<b>", "<i>") for item in items]  # type: ignore[attr-defined]
        return BatchResult([Output((Hypothesis(text, 0.0),)) for text in texts], 0.0)

    monkeypatch.setattr(CopyingProcess, "run", run)
    options = {"shadow": TRANSFORMER, "shadow_share": 1.0, "shadow_report": str(page)}
    with copying_server(["en-de"], **options) as server:
        while server.context.models.all["en-de"].on_translated is None:
            time.sleep(0.01)
        gate = server.context.shadow._model.process.gate  # type: ignore[union-attr, attr-defined]
        server.call(gate.clear)
        found = server.form("/translate", q=["same", "x <b> y"], source="en", target="de")
        assert found.json["translatedText"] == ["same", "x <b> y"]  # the shadow still waits
        server.call(gate.set)
        for _ in range(500):
            if page.exists():
                break
            time.sleep(0.01)
    text = page.read_text(encoding="utf-8")
    assert "1 of 2 segments differ (50.0 %)" in text and "x &lt;b&gt; y<td>x &lt;i&gt; y" in text


def test_a_shadow_needs_one_model() -> None:
    models = {"a": TRANSFORMER, "b": TRANSFORMER}
    with pytest.raises(SeqloomError, match="one model"):
        ServeConfig.compose(None, {"models": models, "shadow": TRANSFORMER})
    with pytest.raises(SeqloomError, match="not a run directory"):
        ServeConfig.compose(None, {"models": {"a": TRANSFORMER}, "shadow": "missing"})


def test_a_shadow_model_may_need_the_modules_of_the_user() -> None:
    config = ServeConfig.compose(None, {"models": {"en-de": TRANSFORMER}, "shadow": TRANSFORMER})
    specs = list[ModelSpec]()

    def new_process(spec: ModelSpec, on_restart: Callable[[], None]) -> CopyingProcess:
        specs.append(spec)
        return CopyingProcess(spec, on_restart)

    build(config, ("models.py",), new_process)
    assert [(one.name, one.imports) for one in specs] == [("en-de", ("models.py",)), ("shadow", ("models.py",))]
