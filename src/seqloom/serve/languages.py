"""Languages of models: codes with the same meaning, names, and model names such as `en-de`."""

from __future__ import annotations

from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair, base_language, language_code

# Codes with the same meaning: of LibreTranslate, of its older versions, and of other programs.
_ALIASES = {
    "zh": "zh-Hans",
    "zh-CN": "zh-Hans",
    "zt": "zh-Hant",
    "zh-TW": "zh-Hant",
    "pb": "pt-BR",
    "iw": "he",
    "no": "nb",
}
# ISO 639-1, and the variants of Chinese and Portuguese.
_NAMES = """
aa Afar|ab Abkhazian|ae Avestan|af Afrikaans|ak Akan|am Amharic|an Aragonese|ar Arabic|as Assamese|av Avaric
ay Aymara|az Azerbaijani|ba Bashkir|be Belarusian|bg Bulgarian|bi Bislama|bm Bambara|bn Bengali|bo Tibetan
br Breton|bs Bosnian|ca Catalan|ce Chechen|ch Chamorro|co Corsican|cr Cree|cs Czech|cu Church Slavonic
cv Chuvash|cy Welsh|da Danish|de German|dv Divehi|dz Dzongkha|ee Ewe|el Greek|en English|eo Esperanto
es Spanish|et Estonian|eu Basque|fa Persian|ff Fulah|fi Finnish|fj Fijian|fo Faroese|fr French
fy Western Frisian|ga Irish|gd Scottish Gaelic|gl Galician|gn Guarani|gu Gujarati|gv Manx|ha Hausa|he Hebrew
hi Hindi|ho Hiri Motu|hr Croatian|ht Haitian|hu Hungarian|hy Armenian|hz Herero|ia Interlingua|id Indonesian
ie Interlingue|ig Igbo|ii Sichuan Yi|ik Inupiaq|io Ido|is Icelandic|it Italian|iu Inuktitut|ja Japanese
jv Javanese|ka Georgian|kg Kongo|ki Kikuyu|kj Kuanyama|kk Kazakh|kl Kalaallisut|km Khmer|kn Kannada|ko Korean
kr Kanuri|ks Kashmiri|ku Kurdish|kv Komi|kw Cornish|ky Kyrgyz|la Latin|lb Luxembourgish|lg Ganda|li Limburgish
ln Lingala|lo Lao|lt Lithuanian|lu Luba-Katanga|lv Latvian|mg Malagasy|mh Marshallese|mi Maori|mk Macedonian
ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|na Nauru|nb Norwegian Bokmål
nd North Ndebele|ne Nepali|ng Ndonga|nl Dutch|nn Norwegian Nynorsk|nr South Ndebele|nv Navajo|ny Chichewa
oc Occitan|oj Ojibwa|om Oromo|or Odia|os Ossetian|pa Punjabi|pi Pali|pl Polish|ps Pashto|pt Portuguese
pt-BR Portuguese (Brazil)|qu Quechua|rm Romansh|rn Rundi|ro Romanian|ru Russian|rw Kinyarwanda|sa Sanskrit
sc Sardinian|sd Sindhi|se Northern Sami|sg Sango|si Sinhala|sk Slovak|sl Slovenian|sm Samoan|sn Shona|so Somali
sq Albanian|sr Serbian|ss Swati|st Southern Sotho|su Sundanese|sv Swedish|sw Swahili|ta Tamil|te Telugu
tg Tajik|th Thai|ti Tigrinya|tk Turkmen|tl Tagalog|tn Tswana|to Tonga|tr Turkish|ts Tsonga|tt Tatar|tw Twi
ty Tahitian|ug Uyghur|uk Ukrainian|ur Urdu|uz Uzbek|ve Venda|vi Vietnamese|vo Volapük|wa Walloon|wo Wolof
xh Xhosa|yi Yiddish|yo Yoruba|za Zhuang|zh-Hans Chinese|zh-Hant Chinese (traditional)|zu Zulu
"""
NAMES = dict(entry.split(" ", 1) for line in _NAMES.split("\n") for entry in line.split("|") if entry)


def served_code(text: str) -> str:
    """Return the form of a code that the server uses: EN is en, pt_br and pb are pt-BR, zh is zh-Hans."""
    code = language_code(text) or text.strip()
    return _ALIASES.get(code, code)


def served_pair(pair: LanguagePair) -> LanguagePair:
    """Return a pair with the codes that the server uses."""
    return LanguagePair(served_code(pair.source), served_code(pair.target))


def language_name(code: str) -> str:
    """Return the English name of a language, or its code if it is not in ISO 639-1."""
    return NAMES.get(code) or NAMES.get(base_language(code), code)


def named_pair(name: str) -> LanguagePair | None:
    """Return the languages of a name that consists of two codes of ISO 639-1, such as en-de or en-pt-BR."""
    try:
        pair = served_pair(LanguagePair.parse(name))
    except SeqloomError:
        return None
    return pair if all(language_name(code) != code for code in pair) else None
