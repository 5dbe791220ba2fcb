"""Are the weights whole, and does the draft fit the target? Reads the model folders, writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.context_length import (
    ContextLengthError,
    parse_version,
    rules_for,
    text_config,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.draft_assessment import (
    compare_contexts,
    explicit_length_findings,
    is_override_set,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.draft_checks import DraftFacts, check_draft
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_check import (
    Check,
    failed,
    passed,
    unknown,
    warned,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_flags import (
    eagle3_target_since,
    newest_release,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.safetensors_header import (
    INDEX_NAME,
    HeaderError,
    indexed_files,
    read_checkpoint,
    read_shapes,
)


def check_weights(name: str, folder: str) -> Check:  # noqa: PLR0911 - one return for each answer
    """Whether every file that the index names is there and as long as its own header says."""
    path = Path(folder)
    if not path.is_dir():
        if not path.is_absolute():
            return unknown(name, f"{folder} is a name on a model hub, not a folder here")
        return failed(name, f"there is no folder {folder}", "mount or fetch the model, or correct its path")
    if not (path / "config.json").is_file():
        return failed(name, f"{folder} has no config.json", "fetch the model again")
    try:
        wanted = indexed_files(path / INDEX_NAME)
    except HeaderError as problem:
        return failed(name, f"{path / INDEX_NAME} is damaged ({problem.__cause__!r})", "fetch it again")
    files = sorted(wanted) or sorted(entry.name for entry in path.glob("*.safetensors"))
    if not files:
        return unknown(name, f"{folder} has no safetensors files, which are all that is checked")
    missing = [file for file in files if not (path / file).exists()]
    damaged = []
    for file in files:
        if file not in missing:
            try:
                read_shapes(path / file)
            except HeaderError as problem:
                damaged.append(str(problem).rstrip("."))
    if missing or damaged:
        faults = [f"{len(missing)} of {len(files)} files are missing ({', '.join(missing[:3])})"] if missing else []
        return failed(name, "; ".join(faults + damaged[:3]), "fetch the missing and damaged files again")
    return passed(name, f"{len(files)} files, all as long as their headers say")


def check_target_support(folder: str, version: Optional[str]) -> Check:
    """Whether this SGLang can draft for the target's model class."""
    name = "eagle3-target"
    config = read_config(folder)
    number = parse_version(version) if version else None
    architecture = str(((config or {}).get("architectures") or [""])[0])
    if not architecture or number is None:
        return unknown(name, "the target's class or SGLang's version is not known")
    since = eagle3_target_since(architecture)
    first = parse_version(since) if since else None
    if first is None and number > newest_release():
        return unknown(name, f"SGLang {version} is newer than what is known here")
    if first is None:
        return failed(name, f"no SGLang known here can use EAGLE-3 with {architecture}", "serve it without speculation")
    if number < first:
        detail = f"EAGLE-3 with {architecture} needs SGLang {since}, this is {version}"
        return failed(name, detail, f"install SGLang {since} or later, or serve without speculation")
    return passed(name, f"{architecture}, from SGLang {since} on")


def check_draft_model(draft: str, target: str, version: Optional[str], ranks: int) -> Check:
    """Whether the draft is an EAGLE-3 draft for this target, by its configuration and tensor shapes."""
    name = "draft-model"
    draft_config, target_config = read_config(draft), read_config(target)
    if draft_config is None or target_config is None:
        return unknown(name, "the configuration of draft or target cannot be read")
    number = parse_version(version) if version else None
    try:
        checkpoint = read_checkpoint(Path(draft))
    except HeaderError as problem:
        return failed(name, str(problem).rstrip("."), "fetch the draft again")
    part = text_config(target_config, rules_for(number)[-1])
    findings = check_draft(DraftFacts(draft_config, part, number, max(ranks, 1)), checkpoint)
    errors = [finding for finding in findings if finding.severity == "error"]
    shown = errors or findings
    if not shown:
        return passed(name, "an EAGLE-3 draft that fits the target")
    make = failed if errors else warned
    return make(name, "; ".join(f.message for f in shown), "; ".join(dict.fromkeys(f.remedy for f in shown)))


def check_context(  # noqa: PLR0911 - one return for each answer
    draft: str,
    target: str,
    version: Optional[str],
    *,
    context_length: Optional[int],
    environment: Mapping[str, Any],
    patched_later: bool,
) -> Check:
    """Whether SGLang would refuse the draft because the target is served with more tokens than it gives."""
    name = "context-length"
    draft_config, target_config = read_config(draft), read_config(target)
    if draft_config is None or target_config is None:
        return unknown(name, "the configuration of draft or target cannot be read")
    rules = rules_for(parse_version(version) if version else None)
    try:
        contexts = compare_contexts(draft_config, target_config, rules, context_length)
    except ContextLengthError as problem:
        return failed(name, str(problem), "repair that config.json")
    explicit: List[Any] = explicit_length_findings(contexts, environment)
    if explicit:
        return failed(name, explicit[0].message, explicit[0].remedy)
    if not contexts.clash:
        return passed(name, f"target {contexts.target} tokens, draft {contexts.draft}")
    detail = f"the target is served with {contexts.target} tokens, the draft gives {contexts.draft}"
    if is_override_set(environment):
        return warned(name, f"{detail}; the override is set", "expect few accepted tokens past the draft's length")
    remedy = (
        "first ask whether it is the right draft (a Kimi-K2 draft says 131072, a Kimi-K2.5 one 262144); then deploy "
        f"with draft_config_strategy: patch, or set sglang_server_context_length: {contexts.draft}"
    )
    if patched_later:
        return warned(name, f"{detail}; this deployment patches the draft", remedy)
    return failed(name, f"{detail}: SGLang refuses the pair after loading the target", remedy)


def read_config(folder: str) -> Optional[Dict[str, Any]]:
    """A model's config.json; None when it cannot be read."""
    try:
        config = json.loads((Path(folder) / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None
