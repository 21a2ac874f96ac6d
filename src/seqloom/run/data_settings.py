"""Options that depend on the content of the data files, which composing a configuration does not read."""

from __future__ import annotations

from seqloom.data.readers import has_features
from seqloom.registry import architecture
from seqloom.run.config import Config, check_model_fits_data


def adapt_to_data(config: Config) -> Config:
    """Return the configuration with text.tokenizer=frames if the training sources name feature files.

    Raise an error if the model cannot read such sources.
    """
    if config.text.tokenizer == "frames" or not has_features(config.data):
        return config
    config = config.model_copy(update={"text": config.text.for_frames()})
    check_model_fits_data(config, architecture(config.model.name))
    return config
