"""Written dates in seven languages, and the same dates in ISO form.

Every source is unambiguous. A two-digit year is in the range 1950 to 2049. Numbers with dots or hyphens are
day, month, year. With slashes the order differs between countries, so either the day is above 12 or a
four-digit year comes first.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from random import Random

FIRST, LAST = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)


@dataclass(frozen=True)
class Language:
    """Date patterns of a language, and space-separated names from January and from Monday."""

    months: str
    short_months: str
    weekdays: str
    short_weekdays: str
    patterns: tuple[str, ...]  # for str.format, with the fields of `_numbers` and `_names`


LANGUAGES = {
    "en": Language(
        months="January February March April May June July August September October November December",
        short_months="Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
        weekdays="Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        short_weekdays="Mon Tue Wed Thu Fri Sat Sun",
        patterns=(
            "{month} {day}, {year}",
            "{month} {ordinal}, {year}",
            "{day} {month} {year}",
            "{ordinal} {month} {year}",
            "the {ordinal} of {month}, {year}",
            "{weekday}, {month} {day}, {year}",
            "{weekday} {day} {month} {year}",
            "{weekday}, the {ordinal} of {month} {year}",
            "{short_month} {day}, {year}",
            "{short_month}. {day}, '{yy}",
            "{short_weekday} {day} {short_month} {year}",
            "{day}-{short_month}-{yy}",
        ),
    ),
    "de": Language(
        months="Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        short_months="Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez.",
        weekdays="Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
        short_weekdays="Mo. Di. Mi. Do. Fr. Sa. So.",
        patterns=(
            "{day}. {month} {year}",
            "{day}. {short_month} {yy}",
            "am {day}. {month} {year}",
            "den {day}. {month} {year}",
            "{weekday}, {day}. {month} {year}",
            "{weekday}, den {day}. {month} {year}",
            "{short_weekday} {day}. {short_month} {year}",
            "{weekday}, {day}.{number}.{year}",
            "{short_weekday}, {dd}.{mm}.{yy}",
        ),
    ),
    "fr": Language(
        months="janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        short_months="janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
        weekdays="lundi mardi mercredi jeudi vendredi samedi dimanche",
        short_weekdays="lun. mar. mer. jeu. ven. sam. dim.",
        patterns=(
            "{ordinal} {month} {year}",
            "le {ordinal} {month} {year}",
            "{weekday} {ordinal} {month} {year}",
            "le {weekday} {ordinal} {month} {year}",
            "{ordinal} {short_month} {year}",
            "{short_weekday} {ordinal} {short_month} {yy}",
        ),
    ),
    "es": Language(
        months="enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        short_months="ene. feb. mar. abr. may. jun. jul. ago. sept. oct. nov. dic.",
        weekdays="lunes martes miércoles jueves viernes sábado domingo",
        short_weekdays="lun. mar. mié. jue. vie. sáb. dom.",
        patterns=(
            "{day} de {month} de {year}",
            "el {day} de {month} de {year}",
            "{weekday}, {day} de {month} de {year}",
            "el {weekday} {day} de {month} del {year}",
            "{day} {short_month} {year}",
            "{short_weekday} {day} de {short_month} de {yy}",
        ),
    ),
    "it": Language(
        months="gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        short_months="gen feb mar apr mag giu lug ago set ott nov dic",
        weekdays="lunedì martedì mercoledì giovedì venerdì sabato domenica",
        short_weekdays="lun mar mer gio ven sab dom",
        patterns=(
            "{ordinal} {month} {year}",
            "il {ordinal} {month} {year}",
            "{weekday} {ordinal} {month} {year}",
            "{day} {short_month} {year}",
            "{short_weekday} {day} {short_month} '{yy}",
        ),
    ),
    "nl": Language(
        months="januari februari maart april mei juni juli augustus september oktober november december",
        short_months="jan. feb. mrt. apr. mei jun. jul. aug. sep. okt. nov. dec.",
        weekdays="maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
        short_weekdays="ma di wo do vr za zo",
        patterns=(
            "{day} {month} {year}",
            "{weekday} {day} {month} {year}",
            "op {weekday} {day} {month} {year}",
            "{short_weekday} {day} {short_month} {year}",
            "{day} {short_month} '{yy}",
        ),
    ),
    "pt": Language(
        months="janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        short_months="jan. fev. mar. abr. mai. jun. jul. ago. set. out. nov. dez.",
        weekdays="segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
        short_weekdays="seg. ter. qua. qui. sex. sáb. dom.",
        patterns=(
            "{ordinal} de {month} de {year}",
            "{weekday}, {ordinal} de {month} de {year}",
            "em {ordinal} de {month} de {year}",
            "{short_weekday}, {day} de {short_month} de {yy}",
        ),
    ),
}
NUMERIC = (
    "{day}.{number}.{year}",
    "{dd}.{mm}.{year}",
    "{dd}.{mm}.{yy}",
    "{dd}-{mm}-{year}",
    "{year}/{mm}/{dd}",
)
SLASHES = ("{dd}/{mm}/{year}", "{mm}/{dd}/{year}", "{day}/{number}/{yy}", "{number}/{day}/{yy}")
FIRST_DAY = {"fr": "1er", "it": "1º", "pt": "1º"}  # except in English, only day 1 is an ordinal


def draw(random: Random) -> tuple[str, str]:
    """Draw a written date and its ISO form."""
    date = FIRST + datetime.timedelta(days=random.randint(0, (LAST - FIRST).days))
    name = random.choice([*LANGUAGES, "numeric"])
    if name == "numeric":
        pattern = random.choice(NUMERIC + SLASHES if date.day > 12 else NUMERIC)
        return pattern.format(**_numbers(date)), date.isoformat()
    pattern = random.choice(LANGUAGES[name].patterns)
    text = pattern.format(**_numbers(date), **_names(date, name))
    return _cased(text, random), date.isoformat()


def _cased(text: str, random: Random) -> str:
    """Return the text unchanged (80 %), in lower case or in upper case, as users write it."""
    return random.choices((text, text.lower(), text.upper()), weights=(8, 1, 1))[0]


def _numbers(date: datetime.date) -> dict[str, str]:
    return {
        "day": str(date.day),
        "dd": f"{date.day:02}",
        "number": str(date.month),
        "mm": f"{date.month:02}",
        "year": str(date.year),
        "yy": f"{date.year % 100:02}",
    }


def _names(date: datetime.date, name: str) -> dict[str, str]:
    language = LANGUAGES[name]
    return {
        "month": language.months.split()[date.month - 1],
        "short_month": language.short_months.split()[date.month - 1],
        "weekday": language.weekdays.split()[date.weekday()],
        "short_weekday": language.short_weekdays.split()[date.weekday()],
        "ordinal": english_ordinal(date.day) if name == "en" else _ordinal(date.day, name),
    }


def english_ordinal(day: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, 11th, 21st …"""
    ending = "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _ordinal(day: int, name: str) -> str:
    return FIRST_DAY.get(name, "1") if day == 1 else str(day)
