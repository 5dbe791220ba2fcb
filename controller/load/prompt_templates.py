"""Built-in prompts from templates: a pool that is large enough for many streams, every prompt different."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def expand(document: Mapping[str, Any], *, seed: int) -> list[tuple[str, str]]:
    """Return (category, prompt) pairs, categories taking turns so that every slice of the pool is mixed.

    Args:
        document: ``{"categories": {name: [{"template": text with {fields}, "fields": {field: [values]}}]}}``.
        seed: Orders the prompts within each category.
    """
    chooser = random.Random(seed)  # noqa: S311  # an order that can be repeated, not a secret
    categories: dict[str, list[str]] = {}
    for category, templates in document["categories"].items():
        texts = list(dict.fromkeys(text for template in templates for text in _fill(template)))
        chooser.shuffle(texts)
        categories[category] = texts
    rounds = itertools.zip_longest(*([(name, text) for text in texts] for name, texts in categories.items()))
    return [pair for turn in rounds for pair in turn if pair is not None]


def _fill(template: Mapping[str, Any]) -> list[str]:
    """Return the template with every combination of its fields."""
    fields = template.get("fields", {})
    texts = []
    for values in itertools.product(*fields.values()):
        text = template["template"]
        for name, value in zip(fields, values, strict=True):
            text = text.replace("{" + name + "}", value)
        texts.append(text)
    return texts
