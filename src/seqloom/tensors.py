"""Safetensors files, written by Python code so that errors and permissions are those of other files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from seqloom.errors import SeqloomError
from seqloom.files import write_bytes


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file."""
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise SeqloomError(
            f"The weights file {file} cannot be read: {error}.",
            "use another checkpoint, or restore the file from a backup",
        ) from error


def write_tensors(file: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> str:
    """Write a safetensors file, force it to the disk and return its checksum.

    `safetensors.save_file` ignores the umask, and a full disk raises an exception that is not an OSError.
    """
    content = save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata)
    write_bytes(file, content)
    return hashlib.sha256(content).hexdigest()
