"""The command line of SGLang 0.5.15: every flag with its arity, parsed by argparse as the real server does.

``data/flags.json`` lists flags, destination, kind and choices; ``data/server_args.json`` the fields of ``ServerArgs``
with their defaults, in the order in which the real server logs them (srt/server_args.py, 0.5.15).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DATA = Path(__file__).parent / "data"
_PROGRAM = "sglang serve"


def human_readable_int(text: str) -> int:
    """Read an integer which may carry a unit, for example ``128k`` or ``1M`` (``human_readable_int``, 0.5.15)."""
    units = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3}
    if text and text[-1] in units:
        return int(float(text[:-1]) * units[text[-1]])
    return int(text)


_CONVERTERS: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "json": json.loads, "str": str}
_HUMAN_READABLE = ("context_length", "max_total_tokens", "max_prefill_tokens")


class _Deprecated(argparse.Action):
    """Stores like the flag it replaces and remembers that it was used."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Store the value (the constant when the flag takes none)."""
        del parser
        if self.dest != argparse.SUPPRESS:
            setattr(namespace, self.dest, self.const if self.nargs == 0 else values)
        namespace.deprecated = [*getattr(namespace, "deprecated", []), (option_string, self.metavar)]


def _add(parser: argparse.ArgumentParser, row: dict[str, Any]) -> None:
    kind, _, element = row["kind"].partition(":")
    options: dict[str, Any] = {"dest": row["dest"], "default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
    replacement = row.get("replacement")
    if kind in ("flag", "const", "ignored"):
        if replacement:
            constant = {"flag": True, "const": element, "ignored": None}[kind]
            options.update(action=_Deprecated, nargs=0, const=constant, metavar=replacement)
            if kind == "ignored":
                options["dest"] = argparse.SUPPRESS
        else:
            options["action"] = "store_true"
    elif kind == "boolean":
        options["action"] = argparse.BooleanOptionalAction
    else:
        if kind in ("list", "any", "optional"):
            options["nargs"] = {"list": "+", "any": "*", "optional": "?"}[kind]
            kind = element
        options["type"] = human_readable_int if row["dest"] in _HUMAN_READABLE else _CONVERTERS[kind]
        if "choices" in row:
            options["choices"] = row["choices"]
        if replacement:
            options.update(action=_Deprecated, metavar=replacement)
        if row["dest"] == "model_path":
            options["required"] = True
    parser.add_argument(*row["flags"], **options)


def build_parser() -> argparse.ArgumentParser:
    """Return a parser that accepts and refuses what the real server's does, prefixes of flags included."""
    parser = argparse.ArgumentParser(prog=_PROGRAM)
    for row in json.loads((DATA / "flags.json").read_text(encoding="utf-8")):
        _add(parser, row)
    return parser


def read_config_file(path: str) -> list[tuple[str, Any]]:
    """Read the simple ``key: value`` lines of a YAML file; nested values are not supported by the stand-in.

    Raises:
        ValueError: another suffix, no such file, or a line that is not ``key: value``.
    """
    file = Path(path)
    if file.suffix.lower() not in (".yaml", ".yml"):
        raise ValueError(f"Config file must be YAML format, got: {file.suffix}")
    if not file.exists():
        raise ValueError(f"Config file not found: {path}")
    pairs = []
    for line in file.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if not text or text.startswith("#") or text == "---":
            continue
        key, colon, value = text.partition(":")
        if not colon or line[0].isspace():
            raise ValueError("Config file must contain a dictionary at root level")
        pairs.append((key.strip(), _scalar(value.strip())))
    return pairs


def _scalar(text: str) -> str | bool:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    text = text.partition(" #")[0].strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    # A null becomes the word "None", as in the real merger: it turns every scalar into text.
    return "None" if text.lower() in ("", "null", "~") else text


def merge_config_file(parser: argparse.ArgumentParser, argv: Sequence[str]) -> list[str]:
    """Put the options of ``--config FILE`` first, so that the command line wins (server_args_config_parser.py)."""
    argv = list(argv)
    if "--config" not in argv:
        return argv
    if argv.count("--config") > 1:
        raise ValueError("Multiple config files specified! Only one allowed.")
    at = argv.index("--config")
    if at == len(argv) - 1:
        raise ValueError("No config file specified after --config flag!")
    switches = {a.dest for a in parser._actions if a.nargs == 0}  # noqa: SLF001 - argparse has no public list
    merged = []
    for key, value in read_config_file(argv[at + 1]):
        if value is True and key.replace("-", "_") in switches:
            merged.append(f"--{key}")
        elif value is not False or key.replace("-", "_") not in switches:
            merged += [f"--{key}", str(value).lower() if isinstance(value, bool) else str(value)]
    return merged + argv[:at] + argv[at + 2 :]


def parse(argv: Sequence[str], log: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return all fields of ``ServerArgs`` for a command line, before any rule is applied.

    Exits with status 2 and a usage text for a flag that does not exist, as argparse does.
    """
    parser = build_parser()
    given = vars(parser.parse_args(merge_config_file(parser, argv)))
    for flag, replacement in given.pop("deprecated", []):
        advice = f" Use '{replacement}' instead." if replacement != "-" else ""
        log(f"\033[1;33m'{flag}' is deprecated and will be removed in a future release.{advice}\033[0m")
    fields: dict[str, Any] = json.loads((DATA / "server_args.json").read_text(encoding="utf-8"))
    fields.update({key: value for key, value in given.items() if key in fields})
    return fields
