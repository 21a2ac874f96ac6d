"""Files of the page: their size, where they come from, and that they refer to nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

import seqloom
from seqloom.inspect.page import FOLDER, VIEWS, in_notebook, self_contained
from seqloom.studio.app import static_files

FILES = static_files()
OWN = {name: file for name, file in FILES.items() if name != "lit-html.js"}


def test_all_files_together_are_small() -> None:
    assert sum(file.stat().st_size for file in FILES.values()) <= 200_000


def test_the_vendored_library_is_the_recorded_one() -> None:
    (entry,) = json.loads((FOLDER / "vendor.json").read_text(encoding="utf-8")).items()
    name, facts = entry
    digest = base64.b64encode(hashlib.sha384((FOLDER / name).read_bytes()).digest()).decode()
    assert facts["integrity"] == f"sha384-{digest}" and facts["version"].startswith("3.")
    assert "BSD 3-Clause" in (FOLDER / facts["license_file"]).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(FILES))
def test_no_file_refers_to_an_address_outside(name: str) -> None:
    text = FILES[name].read_text(encoding="utf-8")
    allowed = {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}
    found = set(re.findall(r"(?:https?:|wss?:)?//[\w.-]+\.[a-z]{2,}[\w./-]*", text)) - allowed
    assert found == set() and "@import" not in text and "url(" not in text
    imports = re.findall(r'from "([^"]+)"', text)
    assert all(one.startswith("./") and one[2:] in FILES for one in imports)


@pytest.mark.parametrize("name", sorted(OWN))
def test_nothing_is_inline_or_unescaped(name: str) -> None:
    text = OWN[name].read_text(encoding="utf-8")
    assert "innerHTML" not in text and "eval(" not in text and "unsafeHTML" not in text
    assert not re.search(r"<[^>]*\sstyle=", text) and not re.search(r"<[^>]*\son\w+=", text)


def test_modules_can_be_joined() -> None:
    """Names at the top level are unique, because a saved page has all modules in one."""
    names = [
        name
        for file in FOLDER.glob("*.js")
        if file.name != "lit-html.js"
        for name in re.findall(
            r"^(?:export )?(?:async )?(?:const|function|let|class) (\w+)",
            file.read_text(encoding="utf-8"),
            re.M,
        )
    ]
    pairs = [
        name.strip()
        for file in FOLDER.glob("*.js")
        for group in re.findall(r"^const \[([^\]]+)\]", file.read_text(encoding="utf-8"), re.M)
        for name in group.split(",")
    ]
    assert len(names + pairs) == len(set(names + pairs))
    page = self_contained({"view": "translation", "hypotheses": []}, "a </script> b")
    assert not re.search(r"^(import|export) ", page, re.M) and page.count("</script>") == 1


def test_a_saved_page_allows_its_own_script_and_style_only() -> None:
    page = self_contained({"view": "search"}, "x", {"step": 3})
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    for tag, directive in (('script type="module"', "script-src"), ("style", "style-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag.split()[0]}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert "connect-src" not in policy and "default-src 'none'" in policy
    frame = in_notebook(page)
    assert frame.startswith("<iframe srcdoc=") and "<script" not in frame


def test_every_view_of_a_saved_page_has_a_drawing() -> None:
    code = (FOLDER / "page.js").read_text(encoding="utf-8")
    block = code[code.index("DRAWINGS = {") : code.index("};")]
    assert set(re.findall(r"(\w+):", block)) == set(VIEWS)


def test_files_are_part_of_the_package() -> None:
    root = Path(seqloom.__file__).parent
    assert all(file.is_relative_to(root) for file in FILES.values())
