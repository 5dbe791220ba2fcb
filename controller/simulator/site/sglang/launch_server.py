"""Launch the simulated inference server: ``python -m sglang.launch_server --model-path ...``."""

from __future__ import annotations

import sys
import warnings

if __name__ == "__main__":
    warnings.warn(
        "'python -m sglang.launch_server' is still supported, but 'sglang serve' is the recommended entrypoint.\n"
        "  Example: sglang serve --model-path <model> [options]",
        UserWarning,
        stacklevel=1,
    )
    # Not at the top: every child of the launcher imports this file again when it is spawned.
    from .launcher import main

    main(sys.argv[1:])
