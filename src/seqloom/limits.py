"""Limits of what one piece of input may take: a small file can claim, or unpack to, any size."""

from __future__ import annotations

LINE_BYTES = 1 << 26  # of a line of text
COLUMNS = 10_000  # of a row of a table
ARRAY_BYTES = 1 << 30  # of the array of one sequence in a .npy or .npz file
SOUND_BYTES = 1 << 28  # of one .wav file: 2 hours at 16 kHz with 16 bits
PARQUET_PAGE_BYTES = 1 << 28  # of an unpacked page of a Parquet file; most programs write pages of 1 MiB
PARQUET_BATCH_BYTES = 1 << 28  # of the cells of one column that are read together
