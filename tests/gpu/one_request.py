"""Send one request to a running SGLang and print its answer beside what we compute from it.

python3 one_request.py URL
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request


def main() -> None:
    """Ask for 256 tokens after a short warm-up and print text, meta_info and the acceptance length."""
    url = sys.argv[1]
    for tokens in (16, 256):
        body = {
            "text": "def add(a, b):\n",
            "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True},
        }
        request = urllib.request.Request(  # noqa: S310 - the operator names the address
            f"{url}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        begun = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
                result = json.load(answer)
        except OSError as error:
            raise SystemExit(f"error: {url}/generate gives no answer: {error}") from None
    seconds = time.monotonic() - begun
    meta = result["meta_info"]
    verify_steps = meta.get("spec_verify_ct") or 0
    acceptance_length = (meta["completion_tokens"] - 1) / verify_steps if verify_steps else None
    print(
        json.dumps({"seconds": round(seconds, 4), "acceptance_length": acceptance_length, "answer": result}, indent=1)
    )


if __name__ == "__main__":
    main()
