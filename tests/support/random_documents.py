"""Random documents of every format, valid and with all kinds of white space, escapes and markup."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

_WORDS = (
    *(
        "Hello",
        "world.",
        "How are you?",
        "Dr. Smith",
        "3.5",
        "e.g.",
        "…",
        "!?",
        "“x”",
        "(",
        ")",
        "*",
        "_",
        "&",
        "#",
    ),
    *(
        "-",
        "1.",
        "+",
        "~",
        "|",
        "\\",
        "`",
        ">",
        "é",
        "e\u0301",
        "这是一句话。",
        "第二句！",
        "नमस्ते।",
        "السلام",
        "😀",
        "👩‍💻",
    ),
    *(
        "{name}",
        "%s",
        "%(n)d",
        "https://example.org/a",
        "\u00a0",
        "\u200b",
        "ß",
        "[x]",
        ":",
        "A.",
        "$",
        "'",
        '"',
    ),
)


def _text(random: Random, words: int = 8) -> str:
    return "".join(
        random.choice(_WORDS) + random.choice((" ", " ", "  ", "")) for _ in range(random.randrange(words))
    )


def _line_end(random: Random) -> str:
    return random.choice(("\n", "\r\n"))


def plain_text(random: Random) -> str:
    return "".join(
        _text(random) + random.choice(("\n", "\r\n", "\t", "\n\n", "\r")) for _ in range(random.randrange(6))
    )


def markdown(random: Random) -> str:
    end = _line_end(random)

    def inline(depth: int = 0) -> str:
        parts = []
        for _ in range(random.randrange(1, 5)):
            text = _text(random, 4)
            inner = inline(depth + 1) if depth < 2 else text
            parts.append(
                random.choice(
                    (
                        text,
                        text,
                        f"**{inner}**",
                        f"*{inner}*",
                        f"_{inner}_",
                        f"~~{text}~~",
                        f"`{text}`",
                        f"[{inner}](u 't')",
                        f"[{inner}][ref]",
                        f"![{text}](i.png)",
                        f"<b>{inner}</b>",
                        "<br/>",
                        "\\*",
                        "&amp;",
                        "&#42;",
                        "[ref]",
                        "",
                        f"<https://example.org/{random.randrange(9)}>",
                        f"{text}{end}{text}",
                        f"{text}  {end}{text}",
                        f"``{text}``",
                    )
                )
            )
        return random.choice(("", " ")).join(parts)

    blocks = [
        lambda: inline(),
        lambda: f"{'#' * random.randrange(1, 7)} {inline()}",
        lambda: f"> {inline()}{end}> {inline()}",
        lambda: f"- {inline()}{end}- [ ] {inline()}{end}  {inline()}",
        lambda: f"1. {inline()}{end}   > {inline()}",
        lambda: f"```{end}{_text(random)}{end}```",
        lambda: f"    {_text(random)}",
        lambda: f"| a | {_text(random, 3)} |{end}|---|---|{end}| {inline()} | b |",
        lambda: f"{_text(random)}{end}===",
        lambda: f"<div>{end}{_text(random)}{end}</div>",
        lambda: f"[ref]: https://example.org '{random.randrange(9)}'",
        lambda: "---",
        lambda: f"---{end}title: x{end}---",
    ]
    return (end * random.randrange(1, 3)).join(
        random.choice(blocks)() for _ in range(random.randrange(6))
    ) + random.choice(("", end))


def subtitles(random: Random) -> str:
    end = _line_end(random)
    is_vtt = random.random() < 0.5
    parts = [f"WEBVTT{end}{end}NOTE {_text(random).replace('-->', '')}{end}{end}" if is_vtt else ""]
    for number in range(random.randrange(5)):
        lines = [
            random.choice(("", "<i>", "- ", "{\\an8}", "<v Bob>" if is_vtt else ""))
            + _text(random)
            + random.choice(("", "</i>", "&amp;", "<b>x</b>"))
            for _ in range(random.randrange(4))
        ]
        text = end.join(line for line in lines if line.strip())
        parts.append(
            f"{number}{end}00:00:0{number},000 --> 00:00:09,500{end}{text}{end}{end}".replace(
                ",", "." if is_vtt else ","
            )
        )
    return "".join(parts)


def json_resource(random: Random) -> str:
    def value(depth: int = 0) -> object:
        kind = random.randrange(8 if depth < 3 else 5)
        if kind < 4:
            return _text(random) + random.choice(("", "\n", "\t", "\u2028", "\x01"))
        if kind == 4:
            return random.choice((1, -2.5e3, None, True))
        if kind == 5:
            return [value(depth + 1) for _ in range(random.randrange(3))]
        return {
            random.choice(("a", "b.c", "@meta", "é", 'q"')) + str(i): value(depth + 1)
            for i in range(random.randrange(4))
        }

    return json.dumps(value(), ensure_ascii=random.random() < 0.5, indent=random.choice((None, 1, 4)))


def po(random: Random) -> str:
    """Return a catalogue whose translations equal the sources."""
    end = _line_end(random)
    entries = ['msgid ""' + end + 'msgstr ""' + end + '"Content-Type: text/plain; charset=UTF-8\\n"' + end]
    entries[0] += '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"' + end
    for number in range(random.randrange(6)):
        source, other = (json.dumps(_text(random) + str(number), ensure_ascii=False) for _ in range(2))
        comments = random.choice(
            ("", f"# a{end}", f"#: x.py:1{end}", f"#, fuzzy, c-format{end}", f"#. b{end}#, python-format{end}")
        )
        wrapped = f'""{end}{source}' if random.random() < 0.5 else source
        if random.random() < 0.3:
            fields = (
                f"msgid {source}{end}msgid_plural {other}{end}msgstr[0] {wrapped}{end}msgstr[1] {other}{end}"
            )
        else:
            fields = f"msgid {wrapped}{end}msgstr {source}{end}"
        entries.append(comments + random.choice(("", f'msgctxt "c{number}"{end}')) + fields)
    if random.random() < 0.3:
        entries.append(f'#~ msgid "old"{end}#~ msgstr "alt"{end}')
    return end.join(entries)


DOCUMENTS: dict[str, Callable[[Random], str]] = {
    "text": plain_text,
    "markdown": markdown,
    "subtitles": subtitles,
    "json": json_resource,
    "po": po,
}
