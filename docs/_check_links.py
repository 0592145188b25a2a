"""Follow every link within the built site, to its file and its anchor: `python docs/_check_links.py docs/_build/html`.

Links to the outside need a network; `make links` asks them.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.add(value)
            if value and name in ("id", "name"):
                self.anchors.add(value)


def broken(site: Path) -> list[str]:
    """What leads nowhere, as `page: link`."""
    site = site.resolve()
    pages = {path: Page(path) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            known = target in pages and parts.fragment in pages[target].anchors
            if not (known or (target.is_file() and not (target in pages and parts.fragment))):
                found.append(f"{path.relative_to(site)}: {link}")
    return sorted(found)


if __name__ == "__main__":
    if lost := broken(Path(sys.argv[1])):
        sys.exit("Links that lead nowhere:\n" + "\n".join(lost))
