"""seqloom lab: list, show, run and notebook."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from seqloom.labs.framework.discovery import lab_named, labs
from seqloom.labs.framework.results import ResultStore
from seqloom.labs.mask import LAB as MASK
from seqloom.labs.mask import Mask
from support.commands import Command


def test_list_shows_every_lab_and_the_last_verdict(command: Command, tmp_path: Path) -> None:
    assert command("lab", "run", "mask", "--out", tmp_path).code == 0
    done = command("lab", "list", "--out", tmp_path, "--json")
    verdicts = {one["name"]: one["verdict"] for one in json.loads(done.out)}
    assert verdicts["mask"] == "holds"
    assert verdicts["vanish"] is None
    table = command("lab", "list", "--out", tmp_path)
    assert table.code == 0
    assert "cell-keeps" in table.out


def test_show_prints_claim_criterion_and_commands(command: Command) -> None:
    done = command("lab", "show", "vanish")
    assert done.code == 0
    for part in ("Claim:", "Criterion:", "seqloom lab run vanish --set activation=tanh", "gains"):
        assert part in done.out
    assert json.loads(command("lab", "show", "vanish", "--json").out)["name"] == "vanish"


def test_the_criterion_is_printed_before_the_run(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Mask, "run", fail)
    done = command("lab", "run", "mask", "--out", tmp_path)
    assert MASK.criterion[:40] in done.out
    assert "Verdict" not in done.out


def test_equal_settings_reuse_the_result(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = json.loads(command("lab", "run", "mask", "--out", tmp_path, "--json").out)
    with monkeypatch.context() as patch:
        patch.setattr(Mask, "run", None)  # calling it fails
        again = command("lab", "run", "mask", "--out", tmp_path, "--json", "--quick")
        assert json.loads(again.out) == first
        with pytest.raises(TypeError):
            command("lab", "run", "mask", "--out", tmp_path, "--set", "changed=3")
        with pytest.raises(TypeError):
            command("lab", "run", "mask", "--out", tmp_path, "--again")
    assert command("lab", "run", "mask", "--out", tmp_path, "--set", "changed=3").code == 0
    assert ResultStore(tmp_path).latest()["mask"].settings.model_dump()["changed"] == 3


def test_an_interruption_keeps_finished_labs(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(lab_named("order-blind")), "run", interrupt)
    done = command("lab", "run", "mask", "order-blind", "--out", tmp_path)
    assert done.code == 130
    assert "1 of 2 labs are finished" in done.err
    assert list(ResultStore(tmp_path).latest()) == ["mask"]


def test_a_damaged_result_counts_as_absent(command: Command, tmp_path: Path) -> None:
    assert command("lab", "run", "mask", "--out", tmp_path).code == 0
    (path,) = tmp_path.glob("*.json")
    for text in ("{", "[]", '{"lab": "mask"}', path.read_text().replace('"masked"', '"other"')):
        path.write_text(text, encoding="utf-8")
        assert ResultStore(tmp_path).latest() == {}
    assert command("lab", "run", "mask", "--out", tmp_path).code == 0
    assert list(ResultStore(tmp_path).latest()) == ["mask"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("masc",), "did you mean 'mask'"),
        (("mask", "--set", "lenght=3"), "length"),
        (("mask", "--set", "length=x"), "mask.length"),
        (("mask", "--set", "changed=40"), "changed=40"),
        (("mask", "--seeds", "2"), "leave out --seeds"),
        (("mask", "--quick", "--full"), "--quick and --full"),
        (("mask", "scale", "--plot", "a.png"), "one lab"),
        (("mask", "--plot", "a.bmp"), ".bmp"),
        (("order-blind", "--set", "order=[1,1,2]"), "each number from 1 to 3"),
    ],
)
def test_user_errors(command: Command, tmp_path: Path, arguments: tuple[str, ...], part: str) -> None:
    done = command("lab", "run", *arguments, "--out", tmp_path)
    assert done.code == 2
    assert part in done.err


def test_a_file_as_folder_is_an_error(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = command("lab", "run", "mask", "--out", tmp_path / "file")
    assert (done.code, "not a folder" in done.err) == (2, True)


def test_the_report_is_one_file_that_works_offline(command: Command, tmp_path: Path) -> None:
    assert command("lab", "run", "mask", "--out", tmp_path).code == 0
    done = command("lab", "report", tmp_path)
    assert done.out == f"report: {tmp_path / 'report.html'} (1 of {len(labs())} labs have a result)\n"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"<(script|link|iframe)|https?://|@import", page)
    ids = re.findall(r'<section id="([\w-]+)">', page)
    assert ids == list(labs())
    assert set(re.findall(r'href="#([\w-]+)"', page)) == {"top", *ids}
    pictures = [b64decode(data) for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)]
    assert len(pictures) == len(labs()) + 1  # equations, and one figure
    for picture in pictures:
        assert ElementTree.fromstring(picture).tag.endswith("svg")
    sections = page.split("<section")
    run, other = (next(one for one in sections if f'id="{name}"' in one) for name in ("mask", "vanish"))
    for part in (
        "holds</span> Logits before",
        "7 (replaced)",
        "seqloom lab run mask --set changed=2",
        "Explanation",
    ):
        assert part in run
    assert 'class="verdict none">not run' in other
    assert "Explanation" not in other
    assert run.index("<details>") < run.index(escape(MASK.exercise.solution)) < run.index("</details>")


def test_a_folder_without_results_has_no_report(command: Command, tmp_path: Path) -> None:
    done = command("lab", "report", tmp_path)
    assert (done.code, "contains no results" in done.err) == (2, True)
    assert command("lab", "run", "mask", "--out", tmp_path).code == 0
    done = command("lab", "report", tmp_path, "--out", tmp_path / "missing" / "a.html")
    assert (done.code, "there is no folder" in done.err) == (2, True)


def test_plot_and_notebook_write_files(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("lab", "run", "mask", "--plot", "mask.svg", "--style", "slide").code == 0
    assert "<svg" in (tmp_path / "mask.svg").read_text(encoding="utf-8")
    assert command("lab", "notebook", "mask").out == "notebook: mask.ipynb\n"
    content = json.loads((tmp_path / "mask.ipynb").read_text(encoding="utf-8"))
    space: dict[str, object] = {}
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            exec(cell["source"], space)
    assert "result" in space


def test_a_lab_with_stored_numbers_names_its_command(command: Command, tmp_path: Path) -> None:
    done = command("lab", "run", "data-size", "--full", "--out", tmp_path)
    assert done.code == 0
    assert "benchmarks/learning_curve.py" in done.out.split("Verdict")[0]
    done = command("lab", "run", "data-size", "--set", "smallest=30000", "--out", tmp_path)
    assert done.code == 2
    assert "training pairs" in done.err


def test_a_gradient_that_is_not_finite_is_an_error(command: Command, tmp_path: Path) -> None:
    settings = ("--set", "gains=[1,3]", "--set", "length=100", "--set", "width=8")
    done = command("lab", "run", "clip", *settings, "--out", tmp_path)
    assert done.code == 2
    assert "length" in done.err
