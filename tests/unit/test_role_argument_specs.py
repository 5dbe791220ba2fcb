"""Every role's argument specification names the same variables with the same defaults as its defaults file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = Path(__file__).parents[2] / "roles"
ROLE_NAMES = sorted(path.name for path in ROLES.iterdir() if (path / "defaults" / "main.yml").is_file())


def load(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def squeezed(value: Any) -> Any:
    """Folded templates may be broken differently."""
    return " ".join(value.split()) if isinstance(value, str) else value


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_specification_matches_defaults(role: str) -> None:
    defaults = load(ROLES / role / "defaults" / "main.yml")
    options = load(ROLES / role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]
    optional = {name for name, option in options.items() if not option.get("required")}
    assert optional == set(defaults)
    for name, default in defaults.items():
        assert squeezed(options[name].get("default")) == squeezed(default), name
        assert options[name].get("type"), name
        assert options[name].get("description"), name


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_variables_carry_the_name_of_their_role(role: str) -> None:
    assert all(name.startswith(f"{role}_") for name in load(ROLES / role / "defaults" / "main.yml"))


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_every_variable_is_in_the_readme(role: str) -> None:
    readme = (ROLES / role / "README.md").read_text(encoding="utf-8")
    missing = [name for name in load(ROLES / role / "defaults" / "main.yml") if f"`{name}`" not in readme]
    assert missing == []
