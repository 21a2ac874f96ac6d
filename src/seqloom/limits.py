"""Limits on the size of an input: a small file can claim, or decompress to, any size."""

from __future__ import annotations

LINE_BYTES = 1 << 26  # per line of text
COLUMNS = 10_000  # per row of a table
ARRAY_BYTES = 1 << 30  # per array (one sequence) of a .npy or .npz file
SOUND_BYTES = 1 << 28  # per .wav file: 2 hours at 16 kHz and 16 bits
PARQUET_PAGE_BYTES = 1 << 28  # per decompressed page of a Parquet file; most programs write pages of 1 MiB
PARQUET_BATCH_BYTES = 1 << 28  # cells of one column that are read together
DOCUMENT_BYTES = 1 << 29  # per document that is a ZIP file, after decompression
DOCUMENT_TEXT_BYTES = 1 << 26  # per document that is a text file, and per text part of a ZIP file
DOCUMENT_TAGS = 2_000_000  # per document
DOCUMENT_SEGMENTS = 1_000_000  # per document, with the gaps between them
BLOCK_CHARACTERS = 1_000_000  # per paragraph; longer ones stay as they are
UNIT_BYTES = 1 << 23  # between two units of a bilingual file
CATALOG_BYTES = 1 << 28  # per .mo file
ARCHIVE_MEMBERS = 100_000  # per zip archive
ARCHIVE_BYTES = 1 << 28  # after decompression, plus the next limit times the size of the archive
ARCHIVE_RATIO = 100
WORKBOOK_ROWS = 1 << 20  # per sheet, as in Excel
