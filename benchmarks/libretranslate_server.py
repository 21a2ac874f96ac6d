"""LibreTranslate without its sentence splitter, whose model is a download; runs in its own environment.

    PYTHON libretranslate_server.py PORT

Every text is one sentence then, which saves LibreTranslate the time of the splitter.
"""

from __future__ import annotations

import sys


class OneSentence:
    """Splitter that returns the text."""

    def __init__(self, package: object) -> None:
        del package

    def split_sentences(self, text: str) -> list[str]:
        """Return the only sentence."""
        return [text]


def main() -> None:
    from argostranslate import translate
    from libretranslate.main import main as serve

    translate.MiniSBDSentencizer = OneSentence
    sys.argv = ["libretranslate", "--port", sys.argv[1], "--disable-web-ui", "--disable-files-translation"]
    serve()


if __name__ == "__main__":
    main()
