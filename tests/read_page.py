"""A saved page as a browser reads it, for tests: its elements, and what stands in its pictures."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

ALLOWED = frozenset(
    (
        *("", "html", "head", "meta", "title", "style", "body", "main", "section", "footer"),
        *("h1", "h2", "p", "blockquote", "b", "i", "small", "em", "a", "span", "br", "wbr"),
        *("ol", "li", "dl", "dt", "dd", "figure", "figcaption", "details", "summary"),
        *("table", "thead", "tbody", "tr", "th", "td", "svg", "g", "rect"),
    )
)
VOID = frozenset(("meta", "br", "wbr"))


@dataclass
class Element:
    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def all(self, name: str = "", class_: str = "") -> list[Element]:
        """Those below it, itself among them, in the order of the page."""
        classes = self.attributes.get("class", "").split()
        is_one = name in ("", self.name) and (not class_ or class_ in classes)
        below = [found for child in self.elements for found in child.all(name, class_)]
        return [self, *below] if is_one else below

    @property
    def elements(self) -> list[Element]:
        return [child for child in self.children if isinstance(child, Element)]

    @property
    def text(self) -> str:
        return "".join(c if isinstance(c, str) else c.text for c in self.children)


@dataclass
class Picture:
    """A figure: its name, the rows of its tables without their heads, what is drawn and said."""

    element: Element

    @property
    def title(self) -> str:
        return self.element.all("figcaption")[0].text

    @property
    def rows(self) -> list[list[str]]:
        """The label and the cells, without the bar between."""
        bodies = self.element.all("tbody")
        found = [row.elements for body in bodies for row in body.all("tr")]
        return [[c.text for c in cells if c.attributes.get("class") != "room"] for cells in found]

    @property
    def marked(self) -> list[str]:
        return [row.elements[0].text for row in self.element.all("tr", "now")]

    @property
    def bars(self) -> list[float]:
        """How long they are, in percent of the room."""
        styles = [bar.attributes["style"] for bar in self.element.all("i")]
        return [float(style.rpartition("width:")[2].rstrip("%")) for style in styles]

    def shapes(self, class_: str) -> list[dict[str, str]]:
        return [shape.attributes for shape in self.element.all("rect", class_)]

    @property
    def note(self) -> str:
        return " ".join(note.text for note in self.element.all("p", "note"))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].name == tag, f"</{tag}> closes <{self._open[-1].name}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    def close(self) -> None:
        super().close()
        assert len(self._open) == 1, f"<{self._open[-1].name}> is never closed"


def read_page(html: str) -> Element:
    """Fails where an element isn't closed in its place."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.root


def pictures(page: Element) -> dict[str, Picture]:
    """By the beginning of their names, as far as the first comma or colon."""
    found = [Picture(each) for each in page.all("figure")]
    return {one.title.partition(",")[0].partition(":")[0]: one for one in found}


def check_alone(page: Element) -> None:
    """Nothing in it runs, loads or leads anywhere else."""
    for element in page.all():
        assert element.name in ALLOWED, element.name
        for name, value in element.attributes.items():
            assert not name.startswith("on"), name
            assert name not in ("src", "srcset", "action", "formaction", "data", "xlink:href"), name
            assert "url(" not in value
            if name == "href":
                assert value.startswith("#")
                assert page_has_id(page, value[1:]), value
    styles = page.all("style")
    assert len(styles) == 1
    assert "@import" not in styles[0].text
    assert "url(" not in styles[0].text
    policy = next(m for m in page.all("meta") if "http-equiv" in m.attributes)
    assert policy.attributes["content"].startswith("default-src 'none'")


def page_has_id(page: Element, name: str) -> bool:
    return sum(element.attributes.get("id") == name for element in page.all()) == 1
