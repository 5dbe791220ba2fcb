"""A simulated node on disk: loading and configuring it, finding its processes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from controller.simulator.site.sglang.faults import Faults
from controller.simulator.site.sglang.gpu_memory import lock_owner

if TYPE_CHECKING:
    import os


class NodeError(Exception):
    """A simulated node cannot be created or read; the sentence says why and what to do."""


@dataclass(frozen=True)
class NodeProcess:
    """A process of a simulated node."""

    pid: int
    parent: int
    name: str


class Node:
    """A simulated node on disk.

    Attributes:
        path: its directory.
        settings: contents of node.json.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings = settings

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Node:
        """Open an existing node.

        Raises:
            NodeError: there is none, or its description cannot be read.
        """
        root = Path(path).resolve()
        try:
            settings = json.loads((root / "node.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise NodeError(f"{root} is no simulated node: it has no node.json. Create one there first.") from None
        except (OSError, ValueError) as error:
            raise NodeError(f"{root / 'node.json'} cannot be read: {error}.") from error
        return cls(root, settings)

    @property
    def python(self) -> Path:
        """The interpreter whose ``sglang`` is the stand-in."""
        return self.path / "ml-env" / "bin" / "python3"

    @property
    def target(self) -> Path:
        """Folder of the target model."""
        return self.path / "models" / "target"

    @property
    def draft(self) -> Path:
        """Folder of the draft model."""
        return self.path / "models" / "draft"

    def configure(self, **changes: object) -> None:
        """Change settings of node.json; they hold from the next launch on.

        Args:
            changes: top-level keys. ``faults`` replaces all faults and is checked; mappings of other keys
                (``speed``, ``phases``, ``memory``) are merged.

        Raises:
            ValueError: an unknown setting or fault.
        """
        settings = dict(self.settings)
        for key, value in changes.items():
            if key not in settings:
                raise ValueError(f"A simulated node has no setting {key!r}; it has {', '.join(settings)}.")
            merged = isinstance(value, dict) and isinstance(settings[key], dict) and key != "faults"
            settings[key] = {**settings[key], **cast("dict[str, Any]", value)} if merged else value
        Faults.from_dict(settings["faults"])
        self.write(settings)

    def write(self, settings: dict[str, Any]) -> None:
        """Replace node.json at once: a launch reads the old or the new one, never half of it."""
        self.settings = settings
        new = self.path / ".node.json.new"
        new.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        new.replace(self.path / "node.json")

    def processes(self) -> list[NodeProcess]:
        """Return the living processes of this node: its interpreter's, their descendants and holders of its GPU memory.

        The last kind are orphans: their title and parent no longer say where they come from.
        """
        table = _process_table()
        interpreters = {str(self.python.parent / name) for name in ("python", "python3")}
        found = {pid for pid, (_, name) in table.items() if name in interpreters}
        found.update(pid for pid in self._memory_holders() if pid in table)
        generation = set(found)
        while generation:
            generation = {pid for pid, (parent, _) in table.items() if parent in generation} - found
            found |= generation
        return [NodeProcess(pid, *table[pid]) for pid in sorted(found)]

    def _memory_holders(self) -> set[int]:
        files = Path(self.settings["gpu_dir"]).glob("gpu*/*.alloc")
        return {owner for file in files if (owner := lock_owner(str(file)))}


def _process_table() -> dict[int, tuple[int, str]]:
    """Return parent and first word of the command line of every process, zombies left out."""
    table = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
            stat = (entry / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if stat[0] != "Z":
            table[int(entry.name)] = (int(stat[1]), command)
    return table
