"""The one place in an inventory that ``apply`` writes: the variables of one host, in a file or a block of its own.

Ansible reads ``host_vars/<host>`` first when it exists, and then no ``host_vars/<host>.yml`` any more (ansible-core
2.19, ``parsing/dataloader.py``, ``find_vars_files``). A folder made beside the operator's file would silently hide it,
so where the host has a file, the variables go into a marked block at its end.
"""

from __future__ import annotations

import textwrap
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.atomic_file import (
    FileWriteError,
    remove_file,
    replace_file,
    sync_directory,
)

from controller.apply.yaml_variables import names_in, variables_in
from controller.exits import InputError
from controller.paths import REPOSITORY, display

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

FILE = "sglang_eagle3.yml"
"""Name of the file in the host's folder."""
BEGIN = "# BEGIN sglang_eagle3, written by: python -m controller apply (do not edit between these lines)"
END = "# END sglang_eagle3"
WIDTH = 80
"""What yamllint allows by default."""
EXTENSIONS = (".yml", ".yaml", ".json")
"""What Ansible tries after the plain name, in its order."""


@dataclass(frozen=True, slots=True)
class SetByHand:
    """A variable that somebody else set for the host."""

    name: str
    path: Path
    line: int

    @property
    def sentence(self) -> str:
        """Where it is."""
        return f"{self.name} in {display(self.path)}, line {self.line}"


@dataclass(frozen=True, slots=True)
class HostVars:
    """The variables of ``host`` beside an inventory.

    Attributes:
        directory: The directory that holds ``host_vars`` (the inventory itself when it is a directory).
        host: Name of the host in the inventory.
    """

    directory: Path
    host: str

    @classmethod
    def of(cls, inventory: Path, host: str) -> HostVars:
        """Return the variables of a host of an inventory.

        Raises:
            InputError: the host's name cannot be the name of a file.
        """
        if "/" in host or host.startswith("."):
            raise InputError(f"the host {host!r} has a name that cannot be a file in host_vars; give it a plain one.")
        return cls(inventory if inventory.is_dir() else inventory.parent, host)

    @property
    def folder(self) -> Path:
        """The host's folder, whether it exists or not."""
        return self.directory / "host_vars" / self.host

    @property
    def path(self) -> Path:
        """The file that is written: one of its own, or the operator's with a block in it."""
        return self._shared_file() or self.folder / FILE

    def read(self) -> str | None:
        """Return what is written there now, markers excluded; None when nothing is.

        Raises:
            InputError: the file cannot be read, or its markers are damaged.
        """
        shared = self._shared_file()
        if shared is not None:
            return _split(shared, _text(shared))[1]
        own = self.folder / FILE
        return _text(own).removeprefix("---\n") if own.exists() else None

    def write(self, content: str | None) -> Path:
        """Replace what is written there, or remove it; everything else keeps its bytes. Returns the file.

        Raises:
            InputError: the file cannot be written, or could not hold the variables.
        """
        shared = self._shared_file()
        try:
            if shared is None:
                return self._write_own(content)
            replace_file(shared.resolve(), self._with_block(shared, content).encode())
        except (FileWriteError, OSError) as error:
            raise InputError(f"cannot keep the settings in {display(self.path)}: {error}") from error
        return shared

    def set_by_hand(self, names: Collection[str]) -> list[SetByHand]:
        """Return which of these variables somebody else set for the host: here, or beside the playbooks.

        Ansible lets host variables beside the playbooks win over those beside the inventory. Files that are encrypted
        as a whole cannot be looked into.
        """
        own = self.folder / FILE
        found = []
        for path in (*_files(self.directory / "host_vars", self.host), *_playbook_files(self.host)):
            text = _text(path)
            if path == own or text.startswith("$ANSIBLE_VAULT"):
                continue
            before, block, after = _split(path, text)
            hidden = "\n" * (block.count("\n") + 2 if block is not None else 0)  # the lines keep their numbers
            outside = before + hidden + after
            found += [SetByHand(name, path, line) for name, line in names_in(path, outside) if name in names]
        return found

    def _write_own(self, content: str | None) -> Path:
        own = self.folder / FILE
        if content is not None:
            _make(own.parent)
            copied = any(isinstance(value, dict) for value in variables_in(own, content).values())
            # Flags and environment are copied together with what the inventory gives, which may be for its owner alone.
            replace_file(own.resolve(), f"---\n{content}".encode(), 0o600 if copied else 0o644)
            return own
        if own.exists():
            remove_file(own.resolve())
        with suppress(OSError):  # an empty folder would hide a file of the host's name
            self.folder.rmdir()
        return own

    def _with_block(self, path: Path, content: str | None) -> str:
        """Return the operator's file with the block replaced, added at the end, or taken out."""
        before, _, after = _split(path, _text(path))
        if content is None:
            return before + after
        if before.startswith("$ANSIBLE_VAULT"):
            raise InputError(f"{display(path)} is encrypted as a whole and takes no block. {self._make_a_folder}")
        if before and not before.endswith("\n"):
            before += "\n"
        text = f"{before}{BEGIN}\n{content}{END}\n{after}"
        wanted = variables_in(path, before + after) | variables_in(path, content)
        if variables_in(path, text, fallback={}) != wanted:
            raise InputError(
                f"{display(path)} cannot take a block of variables at its end (it is no plain list of variables). "
                f"{self._make_a_folder}"
            )
        return text

    @property
    def _make_a_folder(self) -> str:
        return f"Make a folder of it, which Ansible reads the same way: host_vars/{self.host}/ with this file in it."

    def _shared_file(self) -> Path | None:
        """Return the operator's file that Ansible reads for the host; None when it reads, or would read, a folder."""
        if self.folder.is_dir():
            return None
        found = _first(self.directory / "host_vars", self.host)
        if found is not None and found.is_dir():
            raise InputError(f"{display(found)} is a folder with the name of a file; call it host_vars/{self.host}/.")
        if found is not None and found.suffix == ".json":
            raise InputError(f"{display(found)} is JSON, which takes no block. {self._make_a_folder}")
        return found


def rendered(settings: dict[str, Any], comment: str) -> str:
    """Return variables as YAML below a comment; templates stay templates."""
    lines = [part for line in comment.splitlines() for part in textwrap.wrap(line, WIDTH - 2)]
    return "".join(f"# {line}\n" for line in lines) + yaml.safe_dump(
        settings, sort_keys=False, allow_unicode=True, width=WIDTH
    )


def settings_in(content: str | None, path: Path) -> dict[str, Any]:
    """Return the variables of what :meth:`HostVars.read` returned.

    Raises:
        InputError: somebody edited it into something that is no list of variables.
    """
    return variables_in(path, content or "")


def _files(folder: Path, host: str) -> Iterator[Path]:
    """Yield the files that Ansible reads for a host, in its order."""
    first = _first(folder, host)
    if first is not None and first.is_dir():
        yield from _in_folder(first)
    elif first is not None:
        yield first


def _first(folder: Path, host: str) -> Path | None:
    """Return the one place that Ansible looks into for a host, a folder or a file."""
    candidates = (folder / host, *(folder / f"{host}{extension}" for extension in EXTENSIONS))
    return next((path for path in candidates if path.exists()), None)


def _in_folder(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name.endswith("~"):
            continue
        if path.is_dir() and not path.suffix:
            yield from _in_folder(path)
        elif path.is_file() and (not path.suffix or path.suffix in EXTENSIONS):
            yield path


def _playbook_files(host: str) -> Iterator[Path]:
    yield from _files(REPOSITORY / "playbooks" / "host_vars", host)


def _make(folder: Path) -> None:
    """Make a folder that is still there after a power cut."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_directory(folder.parent)


def _text(path: Path) -> str:
    """Return a file's text, line ends as they are."""
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise InputError(f"cannot read {display(path)}: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise InputError(f"{display(path)} is not UTF-8 text, which Ansible needs.") from None


def _split(path: Path, text: str) -> tuple[str, str | None, str]:
    """Return what is before the block, the block's content (None without a block), and what is after it.

    Raises:
        InputError: the markers are not one pair.
    """
    lines = text.splitlines(keepends=True)
    begins = [number for number, line in enumerate(lines) if line.rstrip() == BEGIN]
    ends = [number for number, line in enumerate(lines) if line.rstrip() == END]
    if not begins and not ends:
        return text, None, ""
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        raise InputError(
            f"the markers of the block in {display(path)} are damaged; leave one line {BEGIN[:21]!r}… and after it one "
            f"line {END!r}, or take the whole block out."
        )
    begin, end = begins[0], ends[0]
    return "".join(lines[:begin]), "".join(lines[begin + 1 : end]), "".join(lines[end + 1 :])
