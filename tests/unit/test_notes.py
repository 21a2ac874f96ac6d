"""The pages in docs/notes: every heading of the notes, and options, modules, commands and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "notes"
# The headings of the notes, in order; one that several slides share is listed once.
HEADINGS = {
    "from-seq2seq-to-transformer.md": """
        CS190C Lec2
        Overview
        PART1: What is Seq2Seq
        Examples
        Conclusion
        PART2: Seq2Seq with RNN
        Review
        A naive idea
        Seq2Seq with RNN
        Pros and Cons?
        PART3: Seq2Seq with Transformer
        PART3.1：Attention
        How to encode with proper weight?
        Scaling Dot Product Attention (SDPA)
        Multihead Attention (MHA)
        PART3.2： Position Embeddings
        A Problem
        PART3.3: Feed-Forward Network
        PART3.4: Residual Connection
        PART3.5: Complexity
    """,
    "lectures-6-7-9.md": """
        Lecture 6 - Simple and LSTM RNNs
        Vanishing and Exploding Gradients
        Vanishing gradients
        Why is vanishing gradient a problem?
        Exploding gradients
        How to fix the vanishing gradient problem?
        Long Short-Term Memory RNNs (LSTMs)
        How does LSTM solve vanishing gradients?
        Is vanishing/exploding gradient just a RNN problem?
        Bidirectional and Multi-layer RNNS
        Thinking
        Lecture 7 - Translation, Seq2Seq, Attention
        Section 1: Pre-Neural Machine Translation
        Section 2: Neural Machine Translation (NMT)
        Sequence-to-sequence (seq2seq)
        Multi-layer RNNs
        Beam search decoding
        Evaluation
        Difficulties
        Section 3: Attention
        Sequence-to-sequence: the bottleneck problem
        Attention
        In Equation
        Attention is great
        Attention is a general Deep Learning technique
        Attention Variants
        Thinking
        Lecture 9 - Self- Attention and Transformers
        Issues with recurrent models
        Self-Attention
        Attention
        Self-attention
        Issue: Doesn’t have an inherent notion of order
        Issue: No nonlinearities
        Issue: Need to ensure we don’t “look at the future”
        Transformer
        Model
        Training
        The Transformer Encoder-Decoder
        Drawbacks
        Thinking
    """,
    "sequence2sequence.md": """
        Sequence2Sequence models and transformers
        Encoder-decoder architecture
        Attention
        Transformers
    """,
    "self-attention.md": """
        Lecture Plan
        Recap of NMT
        Issues with recurrent models
        Bottleneck Problem
        Linear interaction distance
        Lack of parallelizability
        Attention
        Mean-pooling
        Weighted-averaging
        Sequence-to-sequence NMT with attention
        Attention: in equations
        Attention advantages
        Attention variants
        Do we need recurrence?
        Self and cross attention
        Example
        Keys, queries, values from same sequence
        Problem 1: Sequence order
        Sine position representation
        Learning position representations
        Problem 2: Non-linearities
        Problem 3: looking into the future → mask
        Summary of problems
        Building blocks of a transformer
        Multi-head attention
        Sequence-stacked form of attention
        Multi-head with matrices
        Scaled dot product
        Add & Norm
        Residual connections
        Layer normalization
        Transformers
        Decoder
        Encoder
        Encoder-decoder
        Cross-attention
        Advantage of Transformers
    """,
    "sequence-to-sequence-models.md": """
        Historical models - Hidden Markov Models(HMMs)
        Recurrent Neural Networks
        Transformers
        Attention head
        Multi-head attention
    """,
}


def text_of(page: str) -> str:
    return (FOLDER / page).read_text(encoding="utf-8")


def rows_of(page: str) -> list[list[str]]:
    """Return the cells of the rows with five columns, without headers."""
    rows = [line[2:-2].split(" | ") for line in text_of(page).splitlines() if line.startswith("| ")]
    return [row for row in rows if len(row) == 5 and row[0] != "section"]


def test_every_note_has_a_page() -> None:
    assert {page.name for page in FOLDER.glob("*.md")} == HEADINGS.keys()


@pytest.mark.parametrize("page", HEADINGS)
def test_every_heading_has_a_row(page: str) -> None:
    headings = [line.strip() for line in HEADINGS[page].strip().splitlines()]
    assert [row[0] for row in rows_of(page)] == headings


@pytest.mark.parametrize("page", HEADINGS)
def test_every_command_is_in_the_block_that_runs(page: str) -> None:
    """tests/end_to_end/test_documentation.py runs the block."""
    block = re.search(r"^```bash\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)
    assert block
    commands = [row[3].strip("`") for row in rows_of(page)]
    assert all(command.startswith("seqloom ") for command in commands)
    assert list(dict.fromkeys(commands)) == block[1].splitlines()


@pytest.mark.parametrize("page", HEADINGS)
def test_every_test_exists(page: str) -> None:
    named = re.findall(r"`((?:oracle|unit|contracts)/[\w/]+\.py)::(\w+)`", text_of(page))
    assert len(named) >= len(rows_of(page))
    for file, name in named:
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\(", source, re.MULTILINE), f"{file} has no {name}"


@pytest.mark.parametrize("page", HEADINGS)
def test_every_option_module_and_class_exists(page: str) -> None:
    options = (ROOT / "docs" / "reference" / "options.md").read_text(encoding="utf-8")
    for row in rows_of(page):
        assert row[2], row[0]
        for option in re.findall(r"`((?:model|search|train|text|data)\.[a-z_.]+)", row[2]):
            assert f"`{option}`" in options, option
        modules = re.findall(r"`((?:[a-z]+/)+[a-z_]+(?:\.py)?)`((?:,? `[A-Za-z_]+`)*)", row[2])
        for module, names in modules:
            path = ROOT / "src" / "seqloom" / module
            assert path.exists(), module
            for name in re.findall(r"`(\w+)`", names) if path.is_file() else ():
                assert re.search(rf"(class|def) {name}\b", path.read_text(encoding="utf-8")), name


def test_the_errata_are_there() -> None:
    errata = "\n".join(text_of(page).split("## Errata")[1] for page in HEADINGS)
    for subject in (
        "unit mean",
        "j ≥ i",
        "BigBird",
        "over each row",
        "over each column",
        "α is the dot product",
        "HMM has a fixed length",
        "regular Transformer decoder",
        "batch normalisation",
    ):
        assert subject in errata, subject
