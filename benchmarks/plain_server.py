"""A plain server: FastAPI, one sentence at a time, with the same engine as `seqloom serve`.

python benchmarks/plain_server.py RUN PORT
"""

from __future__ import annotations

import sys
import threading

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from seqloom.decode.select import load_translator
from seqloom.decode.translator import Translator


class TranslateBody(BaseModel):
    """Request of /translate."""

    q: str


def application(translator: Translator) -> FastAPI:
    """Return the application. A lock, because a translator decodes one batch at a time."""
    app, lock = FastAPI(), threading.Lock()

    @app.get("/ready")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    @app.post("/translate")
    def translate(body: TranslateBody) -> dict[str, str]:
        with lock:
            return {"translatedText": translator.translate(body.q)[0].text}

    return app


def main() -> None:
    run, port = sys.argv[1:]
    translator = load_translator(run, "auto", scores=False)
    translator.translate(["a b c d"])  # warm
    uvicorn.run(application(translator), port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
