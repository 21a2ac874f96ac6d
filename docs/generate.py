"""Generate docs/reference/options.md and cli.md (`make docs`). A test compares them with the code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import typer
from pydantic_core import PydanticUndefined
from typer.core import TyperCommand, TyperGroup

from seqloom.cli.main import app
from seqloom.data.config import DataConfig
from seqloom.decode.config import SearchConfig
from seqloom.registry import architectures
from seqloom.settings import Settings
from seqloom.text.config import TextConfig
from seqloom.training.config import TrainConfig

REFERENCE = Path(__file__).parent / "reference"
OPTIONS_HEAD = """# Options

After this page you can set any option of a run: with `--set section.name=value`, or in a YAML file.

```yaml
model: {name: lstm-bilinear, size: tiny}
train: {max_minutes: 10, metrics: [bleu]}
```

`seqloom train pairs.tsv --config options.yaml --out runs/x` and the same options as flags give the same run. An
unknown option is an error that suggests the nearest one. `make docs` generates this page from the code.
"""


def section(title: str, name: str, settings: type[Settings]) -> str:
    """Return a heading and a table with a row per option."""
    return (
        "\n".join(
            [f"\n## {title}\n", "| option | default | description |", "|---|---|---|", *rows(name, settings)]
        )
        + "\n"
    )


def rows(name: str, settings: type[Settings]) -> Iterator[str]:
    """Yield a table row per option, including those of nested sections."""
    for field, info in settings.model_fields.items():
        if field in settings.sections():
            yield from rows(f"{name}.{field}", settings.sections()[field])
            continue
        default = "by size" if info.default is PydanticUndefined else f"`{info.default!r}`"
        yield f"| `{name}.{field}` | {default} | {info.description or 'name of the architecture'} |"


def options_page() -> str:
    """Return the page of all options of a run."""
    parts = [
        OPTIONS_HEAD,
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


CLI_HEAD = """# Command line

The `--help` text of every command. `make docs` generates this page from the code.
"""


def cli_page() -> str:
    """Return the page of all commands."""
    os.environ |= {"COLUMNS": "80", "NO_COLOR": "1"}
    root = typer.main.get_command(app)
    return CLI_HEAD + "".join(command_sections(root, typer.Context(root, info_name="seqloom")))


def command_sections(command: TyperCommand | TyperGroup, context: typer.Context) -> Iterator[str]:
    """Yield a section for the command and one for each of its subcommands."""
    yield f"\n## {context.command_path}\n\n```\n{context.get_help().rstrip()}\n```\n"
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            yield from command_sections(child, typer.Context(child, info_name=name, parent=context))


def write_pages(folder: Path) -> None:
    """Write the generated pages into the folder."""
    (folder / "options.md").write_text(options_page(), encoding="utf-8")
    (folder / "cli.md").write_text(cli_page(), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else REFERENCE)
