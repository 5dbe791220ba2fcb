"""``python -m tools.supply_chain``: what an installation consists of (SBOM), and what is known against it (audit).

Both tools live in a virtual environment of their own (``.cache/tools``): they are no part of what they describe.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

import controller

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
PRIVATE = ROOT / ".cache" / "tools"
SBOM_TOOL, AUDIT_TOOL = "cyclonedx-bom>=7,<8", "pip-audit>=2.9,<3"
SPECIFICATION = "1.6"
OK, FOUND, UNKNOWN = 0, 1, 2


class ToolError(Exception):
    """A tool cannot be installed or fails; the message is one sentence."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 0 fine, 1 vulnerabilities were found, 2 it cannot be known."""
    parser = argparse.ArgumentParser(prog="python -m tools.supply_chain", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    bill = commands.add_parser("sbom", help="write the bill of materials as CycloneDX JSON")
    bill.add_argument("file", nargs="?", type=Path, default=ROOT / "build" / "sbom.cdx.json")
    commands.add_parser("audit", help="ask for known vulnerabilities; needs the network")
    given = parser.parse_args(arguments)
    try:
        if given.command == "audit":
            return audit()
        given.file.parent.mkdir(parents=True, exist_ok=True)
        bom = bill_of_materials()
        given.file.write_text(json.dumps(bom, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    except ToolError as error:
        sys.stderr.write(f"error: {error}\n")
        return UNKNOWN
    sys.stdout.write(f"{given.file}: {len(bom['components'])} components, CycloneDX {bom['specVersion']}\n")
    return OK


def bill_of_materials() -> dict[str, Any]:
    """Return what this environment has of the project's dependencies and of theirs, without the development tools.

    Raises:
        ToolError: the tool cannot be installed or fails.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # Its validation takes 12 s; what is cut out of the answer below would go past it anyway.
    command = [_tool(SBOM_TOOL, "cyclonedx-py"), "environment", sys.prefix, "--pyproject", str(ROOT / "pyproject.toml")]
    command += ["--spec-version", SPECIFICATION, "--mc-type", "application", "--output-reproducible", "--no-validate"]
    bom: dict[str, Any] = json.loads(_output(command))
    bom["metadata"]["component"]["version"] = controller.__version__
    wanted = [Requirement(text) for text in project["dependencies"]]
    direct = sorted({_normal(one.name) for one in wanted if one.marker is None or one.marker.evaluate()})
    return runtime_only(bom, direct, needs_of(direct))


def needs_of(names: Iterable[str]) -> dict[str, list[str]]:
    """Return normalised name -> names of what it needs here, for these packages and all that they need.

    Extras do not count: nobody who installs this project gets them.

    Raises:
        ToolError: one is not installed.
    """
    found: dict[str, list[str]] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            try:
                texts = requires(name) or []
            except PackageNotFoundError:
                raise ToolError(f"{name} is not installed here; run ./run setup first") from None
            wanted = [Requirement(text) for text in texts]
            found[name] = sorted(
                {_normal(one.name) for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})}
            )
            waiting += found[name]
    return found


def runtime_only(bom: Mapping[str, Any], direct: Iterable[str], needs: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the bill with the packages in ``needs`` alone; ``direct`` are those that the project itself needs."""
    references = {_normal(component["name"]): component["bom-ref"] for component in bom["components"]}
    graph = {references[name]: [references[other] for other in others] for name, others in needs.items()}
    root = bom["metadata"]["component"]["bom-ref"]
    graph[root] = [references[name] for name in direct]
    return {
        **bom,
        "components": [component for component in bom["components"] if component["bom-ref"] in graph],
        "dependencies": [{"ref": ref, "dependsOn": sorted(others)} for ref, others in sorted(graph.items())],
    }


def audit() -> int:
    """Print what is known against the installed packages; 2 when the databases cannot be asked.

    Raises:
        ToolError: the tool cannot be installed.
    """
    paths = [path for path in sys.path if path.endswith("site-packages")]
    command = [_tool(AUDIT_TOOL, "pip-audit"), "--path", paths[0], "--skip-editable", "--progress-spinner", "off"]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False, timeout=600)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = done.stderr.strip().splitlines() or ["it gives no reason"]
        raise ToolError(f"the vulnerability database cannot be asked: {reason[-1][:300]}") from None
    code, text = judge(packages)
    sys.stdout.write(text)
    return code


def judge(packages: Iterable[Mapping[str, Any]]) -> tuple[int, str]:
    """Return exit code and text for pip-audit's answer. That nothing could be asked is no clean bill of health."""
    lines, asked, skipped = [], 0, []
    for package in packages:
        if "skip_reason" in package:
            skipped.append(package["name"])
            continue
        asked += 1
        for found in package["vulns"]:
            fixed = ", ".join(found.get("fix_versions") or []) or "no fixed version"
            lines.append(f"{package['name']} {package['version']}: {found['id']} (fixed in: {fixed})\n")
    if lines:
        return FOUND, "".join(lines)
    if not asked:
        return UNKNOWN, f"not one of {len(skipped)} packages is known to the database that can be reached from here\n"
    return OK, f"{asked} packages: nothing known; {len(skipped)} could not be asked about\n"


def _tool(requirement: str, program: str) -> str:
    path = PRIVATE / "bin" / program
    if not path.exists():
        if not (PRIVATE / "bin" / "python").exists():
            venv.create(PRIVATE, with_pip=True)
        _output([str(PRIVATE / "bin" / "python"), "-m", "pip", "install", "--quiet", requirement])
    return str(path)


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if not line.startswith("WARNING")] or ["no message"]
        raise ToolError(f"{Path(command[0]).name} fails: {lines[-1][:300]}")
    return done.stdout


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
