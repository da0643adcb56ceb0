"""XML out of somebody's file: nothing is fetched, no entity is put in, nothing nests too deeply.

Elements are told by their local names: the strict variant of Office's formats has other namespaces,
and the same names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lxml import etree

Element = Any
"""lxml has no types of its own."""


def parsed(raw: bytes) -> Element | None:
    """The root; None where there is nothing, or what is there is no XML."""
    if not raw:
        return None
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        recover=False,
    )
    try:
        return etree.fromstring(raw, parser)
    except etree.XMLSyntaxError:
        return None


def local(element: Element) -> str:
    """The name without its namespace; "" of what is no element (an entity)."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def value(element: Element | None, name: str = "val", default: str = "") -> str:
    """An attribute by its local name."""
    if element is not None:
        for key, text in element.attrib.items():
            if key.rpartition("}")[2] == name:
                return str(text)
    return default


def child(element: Element | None, *path: str) -> Element | None:
    """The first element along a path of local names."""
    for name in path:
        if element is None:
            return None
        element = next((each for each in element if local(each) == name), None)
    return element


def children(element: Element | None, name: str) -> Iterator[Element]:
    if element is not None:
        yield from (each for each in element if local(each) == name)


def number(text: str, default: int = 0) -> int:
    """
    >>> number("12"), number("x", 1), number("9" * 30)
    (12, 1, 0)
    """
    return int(text) if text.lstrip("-").isdigit() and len(text) < 12 else default
