"""Options supported by an export format, as positive lists: options and values not listed are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from seqloom.models.transformer import Transformer
from seqloom.registry import architecture
from seqloom.settings import ModelSettings, Settings

# Options that may have any value: sizes, and options without effect on a trained model with full attention.
_ANY_VALUE = frozenset(
    {
        *("name", "size", "width", "layers", "decoder_layers", "heads", "qk_width", "v_width", "ffn"),
        *("max_length", "relative_distance", "dropout"),
        *("encoder.window", "encoder.block", "encoder.global_blocks", "encoder.random_blocks"),
        *("encoder.rank", "encoder.sharing", "encoder.separate"),
    }
)


@dataclass(frozen=True)
class Supported:
    """Values of the `model.*` options of a Transformer that a format supports."""

    values: Mapping[str, tuple[object, ...]]  # supported values by option

    def obstacle(self, settings: ModelSettings) -> str | None:
        """Return the first unsupported option with the values that are supported; None if there is none."""
        if architecture(settings.name).build is not Transformer:
            return f"model.name={settings.name} is not an encoder-decoder Transformer"
        for option, value in _options(settings):
            if option in _ANY_VALUE or value in self.values.get(option, ()):
                continue
            supported = ", ".join(map(_written, self.values.get(option, ())))
            reason = f"supported: {supported}" if supported else "the export does not know this option"
            return f"model.{option}={_written(value)} ({reason})"
        return None


def _options(settings: Settings, section: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and the value of every option."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Settings):
            yield from _options(value, f"{section}{name}.")
        else:
            yield f"{section}{name}", value


def _written(value: object) -> str:
    """Return the value in the notation of a configuration file."""
    return str(value).lower() if isinstance(value, bool) else str(value)
