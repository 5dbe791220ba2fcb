"""Train a Llama target and an EAGLE-3 draft with real acceptance, in minutes, from text at hand.

    python3 -m tests.gpu.train_model_pair ROOT [--ballast 3] [--layers 12] [--seed 0] …

Writes ROOT/target and ROOT/draft (safetensors, tokenizer, configurations whose context lengths clash: 16384 against
8192), ROOT/prompts.jsonl (pieces of held-out text, a workload for the sweep) and ROOT/pair.json (recipe, losses,
acceptance length on held-out text by number of draft steps, seconds). Exit code 1 when the acceptance length at 3 steps
stays under 1.8. The seed decides text, split, first weights and windows; a GPU adds up in another order each time, so
acceptance lengths repeat within some per cent. Needs torch and transformers; a GPU unless the sizes are tiny.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path

import torch

from tests.gpu.model_pair import draft_training, recipe, target, text

ENOUGH = 1.8
STEPS = (1, 2, 3, 5)


def main() -> int:
    """Train, measure, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--prompts", type=int, default=96, help="Prompts to write for the sweep.")
    parser.add_argument("--measured-prompts", type=int, default=12, help="Of these, how many measure acceptance here.")
    parser.add_argument("--new-tokens", type=int, default=192, help="Tokens of each measured answer.")
    recipe.add_options(parser)
    arguments = parser.parse_args()
    chosen = recipe.read_options(arguments)
    begun = time.monotonic()

    def say(words: str) -> None:
        print(f"{time.monotonic() - begun:7.1f} s  {words}", flush=True)

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(chosen.seed)
    train_text, held_out = text.read_corpus(chosen.corpus_mib)
    say(f"{len(train_text)} files to train on, {len(held_out)} held out")
    tokenizer = text.make_tokenizer(train_text, chosen.vocabulary)
    tokens = torch.from_numpy(text.encode(tokenizer, train_text)).to(device)
    say(f"{len(tokens)} tokens")

    model = target.make_target(chosen).to(device)
    say(f"{sum(parameter.numel() for parameter in model.parameters()) / 1e6:.0f} million parameters")
    target_loss = target.train_target(model, tokens, chosen, say)
    served = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = model.to(served).eval().requires_grad_(requires_grad=False)
    vocabulary = draft_training.frequent_tokens(tokens, chosen)
    draft = draft_training.train_draft(model, tokens, vocabulary, chosen, say)

    prompts = text.prompts(held_out, arguments.prompts)
    lengths = draft_training.acceptance_length(
        model,
        draft.to(served),
        vocabulary,
        tokenizer,
        prompts[: arguments.measured_prompts],
        chosen,
        new_tokens=arguments.new_tokens,
        steps=STEPS,
    )
    say("acceptance length on held-out text: " + ", ".join(f"{k} steps {value:.2f}" for k, value in lengths.items()))

    target.save_target(model, chosen, arguments.root / "target")
    tokenizer.save_pretrained(arguments.root / "target")
    draft_training.save_draft(draft, vocabulary, model, chosen, arguments.root / "draft")
    lines = [json.dumps({"id": number, "category": "code", "text": prompt}) for number, prompt in enumerate(prompts)]
    (arguments.root / "prompts.jsonl").write_text("\n".join(lines) + "\n")
    summary = {
        "recipe": dataclasses.asdict(chosen),
        "tokens": len(tokens),
        "target_loss": target_loss,
        "acceptance_length": lengths,
        "seconds": round(time.monotonic() - begun, 1),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(0) if device.type == "cuda" else "cpu",
    }
    (arguments.root / "pair.json").write_text(json.dumps(summary, indent=2) + "\n")
    say(f"saved in {arguments.root}")
    if lengths[3] < ENOUGH:
        say(f"error: {lengths[3]:.2f} at 3 steps is below {ENOUGH}: train longer (--target-steps, --draft-steps)")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
