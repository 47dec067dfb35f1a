"""No link of a page leads nowhere, and every page is found from the index of the docs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("benchmarks/*.md"))]
INDEX = ROOT / "docs/README.md"
CODE = ("functions/**/*.py", "sandbox/**/*.py", "infra/**/*.*", "policies/*.yaml", "template.yaml", "samconfig.toml", "*.toml")


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*?) *$", prose(page), re.MULTILINE)]
    names = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
    return {f"{name}-{names[:i].count(name)}" if name in names[:i] else name for i, name in enumerate(names)}


def links(page: Path) -> list[tuple[Path, str]]:
    """Where a page's own links lead to: a file, and the place in it."""
    found = ["".join(both) for both in re.findall(r"\]\(((?!https?:)[^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", prose(page))]
    return [((page.parent / name).resolve() if name else page, anchor) for name, _, anchor in (f.partition("#") for f in found)]


def dead(page: Path) -> list[str]:
    return [
        f"{page.name}: {to.name}#{anchor}"
        for to, anchor in links(page)
        if not to.exists() or (anchor and anchor not in anchors(to))
    ]


def test_no_page_has_a_dead_link():
    assert [link for page in PAGES for link in dead(page)] == []
    assert sum(len(links(page)) for page in PAGES) > 200


def test_a_dead_link_would_be_noticed(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`, three\n[a](#one-two-three) [b](#four) [c](page.md#one-two-three) [d](none.md)\n```sh\n# x\n```\n[e](#x)\n"
    )
    assert dead(page) == ["page.md: page.md#four", "page.md: none.md#", "page.md: page.md#x"]


def test_every_page_is_in_the_index_or_on_a_page_in_it():
    first = {to for to, _ in links(INDEX)}
    found = {INDEX, *first, *(to for page in first & set(PAGES) for to, _ in links(page))}
    assert [page.name for page in PAGES if page not in found] == []


def test_every_page_that_code_and_templates_name_exists():
    named = {
        name
        for glob in CODE
        for path in ROOT.glob(glob)
        if path.suffix in {".py", ".yaml", ".toml", ".bicep", ".bicepparam", ".sh", ".tf", ".j2"}
        for name in re.findall(r"(?<![\w/.-])docs/[\w-]+\.md", path.read_text())
    }
    assert len(named) > 3
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_no_page_installs_by_a_name_that_anyone_could_register():
    """The package is on no registry: a clone's `.[aws]`, or the wheel of a release."""
    assert [
        page.name for page in PAGES if re.search(r"ml[-_]idle[-_]reaper\[|(pip|pipx) install '?ml[-_]idle", page.read_text())
    ] == []
