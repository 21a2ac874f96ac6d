"""Language codes and pairs."""

import pytest

from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair, base_language, language_code


@pytest.mark.parametrize(
    "value, pair",
    [
        ("en-de", ("en", "de")),
        ("EN-DE", ("en", "de")),
        ("en,de", ("en", "de")),
        ("en-GB-pt-BR", ("en-GB", "pt-BR")),
        ("en_GB,pt_br", ("en-GB", "pt-BR")),
        ("en-GB-de", ("en-GB", "de")),
        ("en-zh-Hant-TW", ("en", "zh-Hant-TW")),
        ("es-419-en", ("es-419", "en")),
        (["en", "pt_BR"], ("en", "pt-BR")),
    ],
)
def test_a_pair_of_languages(value: object, pair: tuple[str, str]) -> None:
    assert LanguagePair.parse(value) == pair
    assert LanguagePair.parse(str(LanguagePair(*pair))) == pair
    assert LanguagePair(*pair).reverse == pair[::-1]


@pytest.mark.parametrize("value", ["", "en", "pt-BR", "en-de-fr", "english-german", "en,", ["en"], 3, [1, 2]])
def test_what_is_not_a_pair_is_an_error(value: object) -> None:
    with pytest.raises(SeqloomError, match="not a pair of languages"):
        LanguagePair.parse(value)


@pytest.mark.parametrize(
    "text, code",
    [
        ("pt_BR", "pt-BR"),
        ("de_DE.UTF-8", "de-DE"),
        ("sr@latin", "sr-Latn"),
        ("ca@valencia", "ca"),
        ("x-klingon", None),
    ],
)
def test_codes_of_locales(text: str, code: str | None) -> None:
    assert language_code(text) == code


def test_the_base_of_a_code() -> None:
    assert base_language("pt-BR") == base_language("pt_PT") == "pt"
