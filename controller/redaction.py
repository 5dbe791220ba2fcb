"""The redaction of the collection, for the controller: whatever it keeps or shows passes through here."""

from __future__ import annotations

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import (
    REDACTED,
    is_secret_name,
    redact_stream,
    redact_text,
    split_secrets,
)
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.redaction import redact_tree as redact

__all__ = ["REDACTED", "is_secret_name", "redact", "redact_stream", "redact_text", "split_secrets"]
