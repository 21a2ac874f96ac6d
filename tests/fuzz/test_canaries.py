"""Malicious model folders and files that try to execute something when they are loaded; none succeeds."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import resource
import shutil
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import save

from seqloom import registry
from seqloom.data.datasets import dataset
from seqloom.errors import SeqloomError
from seqloom.export.marian.load import import_marian
from seqloom.files import write_json
from seqloom.inspect.facts import describe
from seqloom.inspect.searchtree import SearchTree, search_tree
from seqloom.outputs import output
from seqloom.registry import import_file
from seqloom.run.config import compose, from_tree, read_yaml
from seqloom.run.directory import Run
from seqloom.run.load import load, load_decoder
from seqloom.run.train import continue_run, create
from seqloom.text.frames import read_features
from support.commands import run_command

WEIGHTS = "checkpoints/best/model.safetensors"
# Audit events of execution, network access and unpickling (docs.python.org: audit events).
ALARMS = {"os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect", "pickle.find_class"}
_heard: list[str] | None = None


def _hear(event: str, _: Any) -> None:
    if _heard is not None and event in ALARMS:
        _heard.append(event)


sys.addaudithook(_hear)


class Nest:
    """Untrusted run, and a folder outside of it that must stay unchanged."""

    def __init__(self, run: Path, folder: Path) -> None:
        self.run = Path(shutil.copytree(run, folder / "run", symlinks=True))
        self.folder = folder
        self.outside = folder / "outside"
        self.outside.mkdir()
        (self.outside / "mine").write_text("mine\n")
        self.marker = folder / "fired"

    @property
    def fired(self) -> bool:
        return self.marker.exists() or self._seen() != {"mine": "mine\n"}

    def _seen(self) -> dict[str, str]:
        return {path.name: path.read_text(errors="replace") for path in self.outside.iterdir()}

    def fire(self) -> None:
        self.marker.touch()

    @property
    def pickle(self) -> bytes:
        """Return a pickle that creates the marker when it is loaded."""
        return b"cos\nmkdir\n(V" + str(self.marker).encode() + b"\ntR."

    @property
    def torch(self) -> bytes:
        """Return the same pickle in an archive as written by torch.save."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("archive/data.pkl", self.pickle)
            archive.writestr("archive/version", "3")
        return out.getvalue()

    def tag(self, kind: str) -> str:
        """Return a YAML value that creates the marker if its tag is executed."""
        return f"!!python/object/{kind}:os.mkdir [{str(self.marker)!r}]"

    def put(self, name: str, content: bytes | str) -> None:
        """Write a file of the run, and its checksum if there is one."""
        file = self.run / name
        content = content.encode() if isinstance(content, str) else content
        file.unlink(missing_ok=True)
        file.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        if file.suffix == ".safetensors":
            self._record(file.with_name("state.json"), sha256={file.name: digest})
        elif file.suffix == ".model":
            self._record(file.with_suffix(".json"), model_sha256=digest)

    def _record(self, file: Path, **changes: Any) -> None:
        values = {key: value for key, value in json.loads(file.read_text()).items() if key != "seal"}
        for key, value in changes.items():
            values[key] = {**values[key], **value} if isinstance(value, dict) else value
        file.write_text(json.dumps(values))

    def link(self, name: str, target: str | Path) -> None:
        path = self.run / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def config(self, text: str) -> None:
        self.put("config.yaml", text)


@dataclass(frozen=True)
class Canary:
    """Planted content, the tested action and, if there is one, an unsafe variant of the action."""

    plant: Callable[[Nest], object]
    act: Callable[[Nest], object]
    careless: Callable[[Nest], object] | None = None


def translate(nest: Nest) -> None:
    load(nest.run, device="cpu").translate(["1 2"])


def resume(nest: Nest) -> None:
    continue_run(Run.open(nest.run), quiet=True)


def info(nest: Nest) -> None:
    describe(Run.open(nest.run))


def unpickle(name: str) -> Callable[[Nest], object]:
    return lambda nest: pickle.loads((nest.run / name).read_bytes())


def pickled(name: str, act: Callable[[Nest], object]) -> Canary:
    return Canary(lambda nest: nest.put(name, nest.pickle), act, unpickle(name))


def arrays(name: str, write: Callable[[Nest, Path], object]) -> Canary:
    """Return a canary with pickles in feature files."""

    def act(nest: Nest) -> None:
        read_features(str(nest.folder / name))

    def careless(nest: Nest) -> None:
        found = np.load(nest.folder / name, allow_pickle=True)
        for key in found if hasattr(found, "files") else ():
            found[key]

    return Canary(lambda nest: write(nest, nest.folder / name), act, careless)


class Bomb:
    """Object that NumPy saves as a pickle."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


def objects(nest: Nest) -> Any:
    return np.array([Bomb(nest.marker)], dtype=object)


def marian(nest: Nest, name: str, content: bytes) -> None:
    folder = nest.folder / "marian"
    folder.mkdir()
    options = {"model_type": "marian", "d_model": 8, "vocab_size": 4, "pad_token_id": 3, "eos_token_id": 0}
    sizes = {f"{side}_{what}": 1 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")}
    widths = {"encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "decoder_start_token_id": 3, "scale_embedding": True}
    (folder / "config.json").write_text(json.dumps({**options, **sizes, **widths}))
    (folder / "vocab.json").write_text('{"</s>": 0, "<unk>": 1, "a": 2, "<pad>": 3}')
    for side in ("source.spm", "target.spm"):
        (folder / side).write_bytes((nest.run / "tokenizer" / "joint.model").read_bytes())
    (folder / name).write_bytes(content)


def imported(name: str, kind: str = "pickle") -> Canary:
    def careless(nest: Nest) -> None:
        if kind == "torch":
            torch.load(nest.folder / "marian" / name, weights_only=False)
        else:
            pickle.loads((nest.folder / "marian" / name).read_bytes())

    return Canary(
        lambda nest: marian(nest, name, getattr(nest, kind)),
        lambda nest: import_marian(nest.folder / "marian", nest.folder / "new"),
        careless,
    )


def obeyed(text: str) -> object:
    return yaml.unsafe_load(text)


def obeyed_config(nest: Nest) -> Any:
    return obeyed((nest.run / "config.yaml").read_text())


def tagged(kind: str, act: Callable[[Nest], object] = translate) -> Canary:
    return Canary(
        lambda nest: nest.config(f"model: {nest.tag(kind)}\n"),
        act,
        obeyed_config,
    )


def included(nest: Nest) -> None:
    """Plant a custom tag that would read a file; the error would quote its content."""
    nest.config(f"model: {{name: !include {nest.outside / 'mine'}}}\n")


def quotes_nothing(nest: Nest) -> None:
    try:
        translate(nest)
    except SeqloomError as error:
        if "mine\n" in str(error):
            nest.fire()
        raise


# Ten lists of ten lists of ten …: a few lines that expand to 10^12 words.
LAUGHS = "x0: &x0 [a, a, a, a, a, a, a, a, a, a]\n" + "".join(
    f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 10)}]\n" for i in range(1, 12)
)


def laughing(section: str, key: str) -> Canary:
    """Return a canary that fires if more than 50 MB are used."""

    def measured(nest: Nest, act: Callable[[], object]) -> None:
        before = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 50_000_000, before[1]))
        try:
            act()
        except MemoryError:
            nest.fire()
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    def plant(nest: Nest) -> None:
        nest.config(f"{LAUGHS}{section}: {f'{{{key}: *x11}}' if key else '*x11'}\n")

    def act(nest: Nest) -> None:
        tree = read_yaml(nest.run / "config.yaml")
        measured(nest, lambda: from_tree({section: tree[section]}, "the test"))

    def careless(nest: Nest) -> None:
        measured(nest, lambda: repr(yaml.safe_load(LAUGHS)["x11"]))

    return Canary(plant, act, None if key else careless)  # slow, so only once


class Browser(HTMLParser):
    """Parser that fires if a page has an element or a handler injected by the text."""

    def __init__(self, nest: Nest) -> None:
        super().__init__()
        self.nest = nest

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        handlers = [name for name, _ in attrs if name.startswith("on")]
        if tag in ("canary", "img", "iframe") or handlers:
            self.nest.fire()


def page(text: str) -> Canary:
    """Return a canary with a text in the page of a search tree."""

    def act(nest: Nest) -> None:
        tree = searched(nest, text)
        Browser(nest).feed(tree.to_html())

    return Canary(lambda nest: None, act, lambda nest: Browser(nest).feed(f"<h1>{text}</h1>"))


def searched(nest: Nest, text: str) -> SearchTree:
    tree = search_tree(load_decoder(nest.run, device="cpu"), text)
    assert tree.source == text
    return tree


def terminal(nest: Nest, text: str) -> None:
    if "\x1b" in text or "\u202e" in text or "\r" in text:
        nest.fire()


def shouted(*arguments: str) -> Canary:
    """Return a canary with terminal control sequences in an error message."""

    def run(nest: Nest) -> None:
        done = run_command(*(one.replace("RUN", str(nest.run)) for one in arguments))
        terminal(nest, done.err)

    return Canary(lambda nest: None, run, lambda nest: terminal(nest, " ".join(arguments)))


def coloured(nest: Nest) -> None:
    nest.config('"\\e[2Jmodel\\u202e": 1\n')


def said(act: Callable[[Nest], object]) -> Callable[[Nest], object]:
    def run(nest: Nest) -> None:
        try:
            act(nest)
        except SeqloomError as error:
            terminal(nest, str(error))
            raise

    return run


def evil_run(nest: Nest) -> Path:
    """Create another run outside, whose weights must not be used."""
    other = nest.folder / "other"
    shutil.copytree(nest.run, other, symlinks=True)
    return other


def linked_checkpoint(nest: Nest) -> None:
    other = evil_run(nest) / "checkpoints" / "step-4"
    nest.link("checkpoints/best", os.path.relpath(other, nest.run / "checkpoints"))


def linked(name: str) -> Callable[[Nest], object]:
    return lambda nest: nest.link(name, evil_run(nest) / name)


def serves_own(nest: Nest) -> None:
    translate(nest)
    nest.fire()  # it was read through the link


def by_path(name: str) -> Canary:
    def act(nest: Nest) -> None:
        evil_run(nest)
        load(nest.run, checkpoint=name.format(nest.folder), device="cpu")
        nest.fire()

    return Canary(lambda nest: None, act)


def through(name: str, act: Callable[[Nest], object]) -> Canary:
    """Return a canary with a link in the run, through which an outside file would be overwritten."""

    def careless(nest: Nest) -> None:
        with (nest.run / name).open("a") as file:
            file.write("theirs")

    return Canary(lambda nest: nest.link(name, nest.outside / "mine"), act, careless)


def waylaid(name: str, act: Callable[[Nest], object]) -> Canary:
    """Return a canary with a link at the temporary name of a file that will be written."""

    def careless(nest: Nest) -> None:
        (nest.folder / name).write_text("theirs")

    return Canary(lambda nest: (nest.folder / name).symlink_to(nest.outside / "mine"), act, careless)


def write_out(nest: Nest) -> None:
    with output(nest.folder / "answers.txt") as file:
        file.write("theirs")


def write_record(nest: Nest) -> None:
    write_json(nest.folder / "a.json", "theirs")


def named(model: str) -> Canary:
    def careless(nest: Nest) -> None:
        module, _, name = model.replace(":", ".").rpartition(".")
        getattr(__import__(module), name)(str(nest.marker))

    plant: Callable[[Nest], object] = lambda nest: nest.config(f"model: {{name: {json.dumps(model)}}}\n")  # noqa: E731
    return Canary(plant, translate, careless if model.startswith("os") else None)


def importing(name: str) -> Canary:
    """Return a canary with a run that names an existing Python file as the definition of its model."""

    def plant(nest: Nest) -> None:
        nest.config("model: {name: evil}\n")
        for folder in (nest.run, nest.folder):
            (folder / "evil.py").write_text(f"import os\nos.mkdir({str(nest.marker)!r})\n")
        nest.put("import.json", json.dumps({"file": name.replace("RUN", str(nest.run))}))

    return Canary(plant, translate, lambda nest: import_file(nest.run / "evil.py"))


def option(text: str) -> Canary:
    """Return a canary with an untrusted option that names a path outside of the run."""

    def plant(nest: Nest) -> None:
        whole = yaml.safe_load((nest.run / "config.yaml").read_text())
        section, key, value = text.replace("OUT", str(nest.outside)).split(" ")
        whole[section] = {**whole[section], key: value}
        nest.config(yaml.safe_dump(whole))

    return Canary(plant, translate)


def expanded(text: str) -> Canary:
    """Return a canary with a file name that a shell would expand."""

    def name(nest: Nest) -> str:
        return text.replace("MARK", str(nest.marker))

    def act(nest: Nest) -> None:
        config = compose(values={"data.train": name(nest)})
        assert config.data.train == (name(nest),)
        create(config, nest.folder / "new", quiet=True)

    return Canary(lambda nest: None, act, lambda nest: os.system(f"echo {name(nest)} >/dev/null"))


def escaping_archive(nest: Nest) -> None:
    with zipfile.ZipFile(nest.folder / "a.npz", "w") as archive:
        for name in ("../outside/evil.npy", f"{nest.outside}/evil.npy", "a.npy"):
            content = io.BytesIO()
            np.save(content, np.ones((2, 2)))
            archive.writestr(name, content.getvalue())


def unpack(nest: Nest) -> None:
    with zipfile.ZipFile(nest.folder / "a.npz") as archive:
        for entry in archive.infolist():
            (nest.folder / "run" / entry.filename).write_bytes(archive.read(entry))


def header(values: object, *, size: int | None = None) -> Callable[[Nest], object]:
    """Return a function that plants weights with this header."""

    def plant(nest: Nest) -> None:
        text = json.dumps(values).encode()
        nest.put(WEIGHTS, struct.pack("<Q", len(text) if size is None else size) + text + bytes(64))

    return plant


def doubled_keys(nest: Nest) -> None:
    """Plant two checksums in one object: those of the true and of other weights."""
    state = (nest.run / "checkpoints/best/state.json").read_text().rstrip().rstrip("}")
    nest.put(WEIGHTS, save({"a": torch.ones(1)}))
    (nest.run / "checkpoints/best/state.json").write_text(state + ', "sha256": {"model.safetensors": "0"}}')


CANARIES: dict[str, Canary] = {
    "weights are a pickle": pickled(WEIGHTS, translate),
    "weights are of torch.save": Canary(
        lambda nest: nest.put(WEIGHTS, nest.torch),
        translate,
        lambda nest: torch.load(io.BytesIO((nest.run / WEIGHTS).read_bytes()), weights_only=False),
    ),
    "optimiser is a pickle": pickled("checkpoints/step-4/training.safetensors", resume),
    "tokenizer is a pickle": pickled("tokenizer/joint.model", translate),
    "tokenizer record is a pickle": pickled("tokenizer/joint.json", translate),
    "state is a pickle": pickled("checkpoints/best/state.json", translate),
    "metrics are a pickle": pickled("metrics.jsonl", info),
    "data record is a pickle": pickled("data.json", resume),
    "alignment is a pickle": pickled("alignment.json", translate),
    "configuration is a pickle": pickled("config.yaml", translate),
    "a .pt beside the weights": pickled("checkpoints/best/model.pt", translate),
    "Marian's pytorch_model.bin": imported("pytorch_model.bin", "torch"),
    "Marian's weights are a pickle": imported("model.safetensors"),
    "Marian's SentencePiece is a pickle": imported("source.spm"),
    "Marian's vocabulary is a pickle": imported("vocab.json"),
    "objects in .npy": arrays("a.npy", lambda nest, path: np.save(path, objects(nest), allow_pickle=True)),
    "objects in .npz": arrays("a.npz", lambda nest, path: np.savez(path, a=objects(nest))),
    "a pickle called .npy": arrays("a.npy", lambda nest, path: path.write_bytes(nest.pickle)),
    "YAML apply": tagged("apply"),
    "YAML new": tagged("new"),
    "YAML in resume": tagged("apply", resume),
    "YAML in a recipe": tagged("apply", lambda nest: compose(nest.run / "config.yaml")),
    "YAML in --set": Canary(
        lambda nest: None,
        lambda nest: compose(assignments=[f"model.name={nest.tag('apply')}"]),
        lambda nest: obeyed(nest.tag("apply")),
    ),
    "YAML tag of their own": Canary(included, quotes_nothing),
    "a billion laughs as a section": laughing("model", ""),
    "a billion laughs as a value": laughing("train", "max_steps"),
    "a billion laughs as a name": laughing("model", "name"),
    "a billion laughs as words": laughing("search", "forbid"),
    "a script in a page": page("1 <canary>alert(1)</canary>"),
    "the end of the data in a page": page("</script><canary>"),
    "a handler in a page": page('1 "><img src=x onerror=alert(1)>'),
    "a terminal code in a name": shouted("info", "\x1b[2J\u202eRUN"),
    "a terminal code in an option": shouted("train", "--out", "x", "--set", "\x1b]0;title\x07=1\r"),
    "a terminal code in a configuration": Canary(
        coloured, said(translate), lambda nest: terminal(nest, "".join(obeyed_config(nest)))
    ),
    "best leads out": Canary(linked_checkpoint, serves_own),
    "the tokenizer leads out": Canary(linked("tokenizer"), serves_own),
    "the configuration leads out": Canary(linked("config.yaml"), serves_own),
    "the log leads out": through("log.txt", resume),
    "the metrics lead out": through("metrics.jsonl", resume),
    "a link in a circle": Canary(lambda nest: nest.link("tokenizer/joint.model", "joint.model"), translate),
    "a pipe that never speaks": Canary(
        lambda nest: ((nest.run / "metrics.jsonl").unlink(), os.mkfifo(nest.run / "metrics.jsonl")), info
    ),
    "a device without end": Canary(lambda nest: nest.link("tokenizer/joint.model", "/dev/zero"), translate),
    "a link where answers are written": waylaid(".answers.txt.part.txt", write_out),
    "a link where answers are locked": waylaid(".answers.txt.lock", write_out),
    "a link where a record is written": waylaid(".a.json.tmp", write_record),
    "a checkpoint by a path": by_path("../../other/checkpoints/step-4"),
    "a checkpoint by an absolute path": by_path("{}/other/checkpoints/step-4"),
    "a model by an import string": named("os:mkdir"),
    "a model by a dotted name": named("os.mkdir"),
    "a model by a path": named("../../outside/mine"),
    "a file to import": importing("evil.py"),
    "a file to import by its path": importing("RUN/evil.py"),
    "a data set by a path": Canary(lambda nest: None, lambda nest: dataset("../../outside")),
    "data of their own": option("data train OUT/mine"),
    "a tokenizer of their own": option("text model OUT/mine"),
    "a run to start from": option("train init_from OUT"),
    "a shell in a name": expanded("$(mkdir MARK)"),
    "a variable in a name": expanded("${HOME}/`mkdir MARK`"),
    "an archive that climbs": Canary(
        escaping_archive, lambda nest: read_features(f"{nest.folder}/a.npz#../outside/evil"), unpack
    ),
    "a header without end": Canary(header({}, size=2**62), translate),
    "a header of more than there is": Canary(
        header({"a": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}), translate
    ),
    "tensors that overlap": Canary(
        header({name: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for name in "ab"}), translate
    ),
    "two checksums": Canary(doubled_keys, translate),
}


@pytest.fixture
def nest(runs: Path, tmp_path: Path) -> Nest:
    return Nest(runs / "transformer", tmp_path)


@pytest.fixture
def alarms() -> Iterator[list[str]]:
    global _heard
    _heard = []
    yield _heard
    _heard = None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", CANARIES)
def test_no_canary_fires(name: str, nest: Nest, alarms: list[str], little_memory: None) -> None:
    CANARIES[name].plant(nest)
    assert not nest.fired
    try:
        CANARIES[name].act(nest)
    except SeqloomError as error:
        print(error)
    assert not nest.fired
    assert alarms == []


@pytest.mark.parametrize("name", [name for name, canary in CANARIES.items() if canary.careless])
def test_every_canary_can_fire(
    name: str, nest: Nest, alarms: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every canary fires in unsafe code; otherwise the test above could not fail."""
    monkeypatch.setattr(registry, "_IMPORTED", set())  # no other test imports these files in its processes
    canary = CANARIES[name]
    canary.plant(nest)
    assert canary.careless
    try:
        canary.careless(nest)
    except Exception as error:  # the expected object is missing; the canary may still have fired
        print(error)
    assert nest.fired or alarms


def test_there_are_enough() -> None:
    assert len(CANARIES) >= 30
    assert sum(canary.careless is not None for canary in CANARIES.values()) >= 30
