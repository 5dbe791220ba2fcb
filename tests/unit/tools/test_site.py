"""The documentation site: it builds without a warning, has every command, module and role, and needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from controller.cli.app import COMMANDS
from tools.site import links, markdown, modules, navigation

ROOT = Path(__file__).resolve().parents[3]
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]+src=\"(?P<src>[^\"]+)|<link[^>]+href=\"(?P<href>[^\"]+)|url\((?P<url>[^)]+)\)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    # Not --quiet: what is not said is not counted as a warning either.
    command = [sys.executable, "-m", "properdocs", "build", "--strict", "--site-dir", str(built)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return built


def test_every_command_module_and_role_has_its_place(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text()
    for command in COMMANDS:
        assert f'<pre><code class="language-text">controller {command}' in page
    for module in (ROOT / "plugins" / "modules").glob("*.py"):
        assert (site / "reference" / "modules" / f"{module.stem}.html").is_file()
    for role in (ROOT / "roles").iterdir():
        text = (site / "reference" / "roles" / f"{role.name}.html").read_text()
        assert f"{role.name}_" in text


def test_every_page_is_on_the_site_and_can_be_found(site: Path) -> None:
    front = (site / "index.html").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html")
        built = name.with_name("index.html") if name.name == "README.html" else name
        assert (site / built).is_file()
    for section in navigation.SECTIONS.values():
        assert section in front


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    seen = 0
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        for found in LOADED.finditer(file.read_text(errors="replace")):
            seen += 1
            address = found["src"] or found["href"] or found["url"]
            assert not address.strip("'\" ").startswith(("http:", "https:", "//")), f"{file.name}: {address}"
    assert seen


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a](../how-to/deploy.md#x)", "[a](../how-to/deploy.md#x)"),
        ("[a](../../roles/nccl_env/README.md)", "[a](roles/nccl_env.md)"),
        ("[a](../../roles/nccl_env)", "[a](roles/nccl_env.md)"),
        ("[a](../../plans/x.yml)", "[a](https://r/plans/x.yml)"),
        ("[a](https://example.org/b.md)", "[a](https://example.org/b.md)"),
        ("[a](#here)", "[a](#here)"),
    ],
)
def test_links_lead_to_the_same_thing(link: str, expected: str) -> None:
    source = ROOT / "docs" / "reference" / "page.md"
    assert links.rewritten(link, source, "reference/page.md", ROOT, "https://r") == expected


def test_a_readmes_links_start_where_the_readme_is() -> None:
    source = ROOT / "roles" / "preflight" / "README.md"
    text = links.rewritten("[a](../../docs/runbooks/xid.md)", source, "reference/roles/preflight.md", ROOT, "https://r")
    assert text == "[a](../../runbooks/xid.md)"


def test_ansibles_markup_becomes_markdown() -> None:
    assert (
        markdown.ansible("Set O(state=absent), see M(a.b.c) and C(f(x)).")
        == "Set `state=absent`, see `a.b.c` and `f(x)`."
    )
    assert markdown.ansible("I(so) B(it) L(is,https://x) U(https://y)") == "*so* **it** [is](https://x) https://y"
    assert markdown.table(("a",), [("x | y\nz",)]) == "| a |\n|---|\n| x \\| y z |\n"
    assert "| `a.b` | list of str | **required** | One. One of `x`. |" in modules.options_table(
        {
            "a": {
                "type": "dict",
                "suboptions": {
                    "b": {"type": "list", "elements": "str", "required": True, "description": "One.", "choices": ["x"]}
                },
            }
        }
    )


def test_a_page_in_no_section_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"docs/new/page\.md is in no section"):
        navigation.navigation({"new/page.md": "New"})
    assert navigation.navigation({"README.md": "All", "tutorial/a.md": "A"})[:2] == [
        {"Overview": "README.md"},
        {"Tutorial": [{"A": "tutorial/a.md"}]},
    ]
