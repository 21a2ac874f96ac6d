"""Every language model honours every search option when it continues a text, or refuses it."""

from __future__ import annotations

from typing import Any

import pytest

from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.generation import Generator
from seqloom.decode.translator import Outputs
from seqloom.errors import SeqloomError
from seqloom.run.load import load_generator
from support.golden import golden_run
from support.translators import EVERY_OPTION, OPTIONS, SUBJECTS, differ, options_of

PROMPTS = ["le chat", ""]
MODELS = ["lm", "lstm-lm", "ngram", "hmm-lm"]
REFUSED = {"require", "shortlist", "coverage_penalty", "max_length_factor", "max_length_extra"}
RULES = {"forbid", "no_repeat", "min_length", "longest"}  # these also apply to samples
# Rules apply to the continuation only, so the prompts contain nothing that is forbidden.
VALUES: dict[str, dict[str, Any]] = {"forbid": {"forbid": ("arbre", ".")}, "longest": {"longest": 4}}


def generator(name: str, options: dict[str, Any]) -> Generator:
    """Return the generator of a recorded run with the given search options."""
    given = load_generator(golden_run(name))
    search = SearchConfig.checked({**given.search.model_dump(), **options}, "search")
    return Generator(given.model, given.tokenizer, search, max_length=24)


def holds(option: str, search: SearchConfig, tokens: tuple[str, ...], prompt: list[str]) -> bool:
    """Return whether a text satisfies the rule of an option."""
    text = (*prompt, *tokens)
    match option:
        case "forbid":
            return not set(tokens) & set(search.forbid)
        case "no_repeat":
            return len(set(text)) == len(text)
        case "min_length":
            return len(text) >= search.min_length
        case "longest":
            return len(text) <= 4
    return True


@pytest.mark.parametrize("option", sorted(EVERY_OPTION))
@pytest.mark.parametrize("name", MODELS)
def test_a_search_option_is_honoured_or_refused(name: str, option: str) -> None:
    without, values = options_of(SUBJECTS["transformer"], option)
    values = {**without, **VALUES.get(option, {option: values[option]})}
    if option in REFUSED:
        with pytest.raises(SeqloomError, match=f"does not support search.{option}"):
            generator(name, {option: values[option]})
        return
    without = {key: value for key, value in without.items() if key not in REFUSED}
    values = {key: value for key, value in values.items() if key not in REFUSED}
    one, other = generator(name, values), generator(name, without)
    assert differ(one.beam(PROMPTS), other.beam(PROMPTS)) == OPTIONS[option].changes
    samples = SamplingConfig(samples=8)
    drawn = one.sample(PROMPTS, samples)
    assert differ(drawn, other.sample(PROMPTS, samples)) == (option in RULES)
    assert _all_hold(option, one, one.beam(PROMPTS))
    assert _all_hold(option, one, drawn)


def _all_hold(option: str, generator: Generator, texts: Outputs) -> bool:
    return all(
        holds(option, generator.search, text.tokens, prompt.split())
        for prompt, found in zip(PROMPTS, texts, strict=True)
        for text in found
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_prompt_without_possible_continuation(name: str) -> None:
    """The minimum length exceeds the vocabulary, and each token may be used only once."""
    size = load_generator(golden_run(name)).tokenizer.size
    strict = generator(name, {"min_length": size + 1, "no_repeat": 1, "beam": 1})
    with pytest.raises(SeqloomError, match="No text can continue 'le'"):
        strict.beam(["le"], max_length=size + 9)
    with pytest.raises(SeqloomError, match="No text can continue 'le'"):
        strict.sample(["le"], SamplingConfig(), max_length=size + 9)
