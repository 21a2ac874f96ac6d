"""Writes docs/options.md from the config classes, so that it cannot drift: `make docs`; a test compares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic_core import PydanticUndefined

from seqloom.data.config import DataConfig
from seqloom.decode.config import SearchConfig
from seqloom.registry import architectures
from seqloom.settings import Settings
from seqloom.text.config import TextConfig
from seqloom.training.config import TrainConfig

PAGE = Path(__file__).parent / "options.md"
HEAD = """# Options

Every option of a run, by section. Set one with `--set section.name=value`, or in a YAML file:

```yaml
model: {name: lstm-bilinear, size: tiny}
train: {max_minutes: 10, metrics: [bleu]}
```

`seqloom train pairs.tsv --config options.yaml --out runs/x` and the same options as flags give the same run. An
unknown option is an error that names the nearest one. This page is made from the code by `make docs`.
"""


def section(title: str, name: str, settings: type[Settings]) -> str:
    """A heading and a table row per option."""
    return (
        "\n".join([f"\n## {title}\n", "| option | default | |", "|---|---|---|", *rows(name, settings)]) + "\n"
    )


def rows(name: str, settings: type[Settings]) -> Iterator[str]:
    """A table row per option, those of a section inside the section included."""
    for field, info in settings.model_fields.items():
        if field in settings.sections():
            yield from rows(f"{name}.{field}", settings.sections()[field])
            continue
        default = "by size" if info.default is PydanticUndefined else f"`{info.default!r}`"
        yield f"| `{name}.{field}` | {default} | {info.description or 'this architecture'} |"


def page() -> str:
    """The whole page."""
    parts = [
        HEAD,
        section("Data", "data", DataConfig),
        section("Text", "text", TextConfig),
        *(
            section(f"Model: {a.name}", "model", a.settings)
            for a in architectures().values()
            if not a.overrides
        ),
        section("Training", "train", TrainConfig),
        section("Search", "search", SearchConfig),
    ]
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
