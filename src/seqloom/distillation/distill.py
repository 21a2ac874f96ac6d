"""Distillation: teachers translate, the best outputs are selected, a student learns them, both are compared.

Every phase writes its own file or run directory, so interrupted work continues where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from seqloom.data.corpus import Corpus, Prepared
from seqloom.data.readers import read_source
from seqloom.data.report import DataReport
from seqloom.data.split import fingerprint
from seqloom.decode.mbr import UtilityName, sentence_utility
from seqloom.distillation.comparison import measure
from seqloom.distillation.journal import Journal
from seqloom.distillation.selection import Selection, select
from seqloom.distillation.student import StudentOptions, student_config, train_student
from seqloom.distillation.translation import (
    TranslatorOptions,
    candidates,
    check_file,
    translate_rest,
    weights_checksum,
)
from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import Metric
from seqloom.files import read_sealed, sealed, sha256, write_json
from seqloom.outputs import check_new_folder, only_writer, output
from seqloom.progress import counter
from seqloom.run.config import Config
from seqloom.run.directory import Run
from seqloom.run.load import use_of
from seqloom.training.checkpoint import TrainState
from seqloom.types import Example


@dataclass(frozen=True)
class Distillation:
    """The work of distilling teachers into a student, and its files in the folder `out`."""

    teachers: Sequence[Path]
    out: Path
    decoding: TranslatorOptions  # of the teachers, with an n-best list
    student: StudentOptions
    metrics: Sequence[Metric]
    texts: Sequence[str] = ()  # files with additional sources
    similarity: UtilityName = "bleu"

    @property
    def pairs_file(self) -> Path:
        return self.out / "distilled.jsonl"

    @property
    def valid_file(self) -> Path:
        return self.out / "valid.jsonl"

    @property
    def student_folder(self) -> Path:
        return self.out / "student"

    @property
    def report_file(self) -> Path:
        return self.out / "report.json"

    @cached_property
    def teacher(self) -> Run:
        """The first teacher, whose data and tokenizers the student uses."""
        return Run.open(self.teachers[0])

    def run(self) -> dict[str, Any] | None:
        """Do all that is left to do, and return the report; None if training was asked to stop."""
        config, settings = self._student_config(), self._settings()
        with only_writer(self.out):
            journal = self._journal(settings)
            teacher = self.teacher.config()
            prepared = Corpus(teacher.data, teacher.text).reopen(
                self.teacher.data_record(), self.teacher.tokenizers()
            )
            valid = list(prepared.valid_examples())
            self._translate(prepared, journal)
            selection = self._select(prepared, valid, journal)
            state = train_student(config, self.teacher, self.student_folder)
            if not state.finished:
                return None
            systems = self._evaluate(valid)
            report = self._report(settings, selection, state, systems)
            write_json(self.report_file, report)
        return report

    def _student_config(self) -> Config:
        config = self.teacher.config()
        if use_of(config) != "translate" or config.data.is_text:
            raise SeqloomError(
                f"The model of {self.teacher.folder} ({config.model.name}) was not trained on pairs.",
                "distillation needs a teacher that translates",
            )
        if not config.data.has("train"):
            raise SeqloomError(
                f"{self.teacher.folder} was imported, so its training data is unknown.",
                f"fine-tune it first: seqloom train pairs.tsv --init-from {self.teacher.folder} --out DIR",
            )
        if config.data.context:
            raise SeqloomError(
                f"{self.teacher.folder} was trained with data.context={config.data.context}.",
                "distillation translates single lines: use a teacher without context",
            )
        return student_config(config, self.pairs_file, self.valid_file, self.student)

    def _settings(self) -> dict[str, Any]:
        """Return everything that the result depends on."""
        for text in self.texts:
            check_file(text)
        return {
            "teachers": {str(run): weights_checksum(run) for run in self.teachers},
            "texts": {text: sha256(Path(text)) for text in self.texts},
            **self.decoding.as_dict(),
            "similarity": self.similarity,
            "student": self.student.as_dict(),
            "metrics": [metric.name for metric in self.metrics],
        }

    def _journal(self, settings: dict[str, Any]) -> Journal:
        """Create the folder, or check that it belongs to the same work; return the journal of the outputs."""
        path = self.out / "translations.jsonl"
        if not path.exists():
            check_new_folder(self.out)
            self.out.mkdir(exist_ok=True)
        return Journal(path, settings, work=self.out)

    def _examples(self, prepared: Prepared) -> Iterator[Example]:
        """Yield the training pairs of the teacher, then the lines of the additional texts."""
        texts = (read_source(text, report=DataReport()) for text in self.texts)
        return chain(prepared.train_examples(), chain.from_iterable(texts))

    def _translate(self, prepared: Prepared, journal: Journal) -> None:
        total = sum(1 for _ in self._examples(prepared))
        translate_rest(
            journal,
            lambda: self.decoding.load(self.teachers),
            self.decoding.strategy,
            self._examples(prepared),
            total,
        )

    def _select(self, prepared: Prepared, valid: Sequence[Example], journal: Journal) -> dict[str, Any]:
        """Write the distilled pairs and the validation pairs; return statistics of the selection."""
        file = self.out / "selection.json"
        if file.is_file():
            return read_sealed(file)
        _write_pairs(self.valid_file, ((one.source, one.target or "") for one in valid))
        selection = Selection()
        with counter("selected", journal.items) as advance:
            selected = select(
                self._examples(prepared),
                candidates(journal),
                similarity=sentence_utility(self.similarity),
                held_out={fingerprint(example.source) for example in valid},
                selection=selection,
                on_progress=advance,
            )
            _write_pairs(self.pairs_file, selected)
        if not selection.data.kept:
            raise SeqloomError(
                f"No pair is left: {selection.data.summary()}.",
                f"evaluate the teacher first: seqloom evaluate {self.teacher.folder} test.tsv",
            )
        write_json(file, sealed(selection.as_dict()))
        return selection.as_dict()

    def _evaluate(self, valid: Sequence[Example]) -> list[dict[str, Any]]:
        """Return the measurements of teacher and student; those of an earlier call are not repeated."""
        systems = []
        for name, runs in (("teacher", self.teachers), ("student", [self.student_folder])):
            file = self.out / f"{name}.json"
            if not file.is_file():
                write_json(file, sealed(measure(name, runs, valid, self.metrics, self.decoding)))
            systems.append(read_sealed(file))
        return systems

    def _report(
        self,
        settings: dict[str, Any],
        selection: dict[str, Any],
        state: TrainState,
        systems: list[dict[str, Any]],
    ) -> dict[str, Any]:
        return {
            "settings": settings,
            "selection": selection,
            "training": {"steps": state.step, "seconds": state.seconds, "finished": state.finished},
            "evaluation": systems,
        }


def _write_pairs(path: Path, pairs: Iterator[tuple[str, str]]) -> None:
    with output(path) as stream:
        for source, target in pairs:
            stream.write(json.dumps({"source": source, "target": target}, ensure_ascii=False) + "\n")
