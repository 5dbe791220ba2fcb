"""Names and shapes of the tensors of a checkpoint folder, read from safetensors headers only.

Format (safetensors README): 8 bytes little-endian header length, a JSON object {name: {dtype, shape, data_offsets}},
then the data.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

if TYPE_CHECKING:
    from pathlib import Path

Shape = Tuple[int, ...]

_LENGTH_BYTES = 8
# The safetensors library refuses longer headers too.
_MAX_HEADER_BYTES = 100_000_000
INDEX_NAME = "model.safetensors.index.json"


class HeaderError(ValueError):
    """A file is not a whole safetensors file; the message is one sentence with the path."""


@dataclass(frozen=True)
class Checkpoint:
    """What a folder holds.

    Attributes:
        shapes: extents of each tensor, by name.
        missing_files: weight files that the index names and that are not there.
        has_pickle_only: there are weights, all in a format that is not read here.
    """

    shapes: Dict[str, Shape]
    missing_files: List[str]
    has_pickle_only: bool

    @property
    def has_weights(self) -> bool:
        """Whether there is any weight file, readable here or not."""
        return bool(self.shapes or self.missing_files or self.has_pickle_only)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read the headers of all safetensors files of a folder, and the index of a sharded one.

    Raises:
        HeaderError: a safetensors file or the index is damaged or cut short.
    """
    files = sorted(folder.glob("*.safetensors"))
    present = {path.name for path in files}
    missing = sorted(indexed_files(folder / INDEX_NAME) - present)
    shapes: Dict[str, Shape] = {}
    for path in files:
        shapes.update(read_shapes(path))
    pickles = any(folder.glob("*.bin")) or any(folder.glob("*.pt")) or any(folder.glob("*.pth"))
    return Checkpoint(shapes, missing, pickles and not files)


def read_shapes(path: Path) -> Dict[str, Shape]:
    """Shapes of the tensors of one safetensors file, by name.

    Raises:
        HeaderError: the header is not one, or the file is shorter than its header says.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            head = stream.read(_LENGTH_BYTES)
            length = struct.unpack("<Q", head)[0] if len(head) == _LENGTH_BYTES else _MAX_HEADER_BYTES + 1
            if length > min(_MAX_HEADER_BYTES, size - _LENGTH_BYTES):
                raise HeaderError(
                    f"{path} is not a safetensors file (a download cut short, or a Git LFS pointer?): fetch it again."
                )
            header = json.loads(stream.read(length))
    except OSError as error:
        raise HeaderError(f"cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        if isinstance(error, HeaderError):
            raise
        raise HeaderError(f"{path} has a damaged safetensors header ({error}): fetch it again.") from error
    return _shapes_of(path, header, size - _LENGTH_BYTES - length)


def _shapes_of(path: Path, header: Dict[str, Any], data_bytes: int) -> Dict[str, Shape]:
    try:
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        shapes = {name: tuple(int(extent) for extent in entry["shape"]) for name, entry in tensors.items()}
        needed = max((int(entry["data_offsets"][1]) for entry in tensors.values()), default=0)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise HeaderError(f"{path} has a damaged safetensors header ({error!r}): fetch it again.") from error
    if needed > data_bytes:
        raise HeaderError(
            f"{path} is cut short: {data_bytes} bytes of tensors where its header promises {needed}: fetch it again."
        )
    return shapes


def indexed_files(index: Path) -> set[str]:
    """File names that a sharded checkpoint's index promises; none without an index.

    Raises:
        HeaderError: the index is damaged or cannot be read; its cause says why.
    """
    try:
        weight_map = json.loads(index.read_bytes())["weight_map"]
        return {str(name) for name in weight_map.values()}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HeaderError(f"{index} is not a safetensors index ({error!r}): fetch it again.") from error
