"""A report as one page of HTML that needs nothing else. Pure.

It is built as a tree, not from text: whatever a reason or a name holds, the writer of the tree escapes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from xml.etree.ElementTree import Element, SubElement, XMLParser, fromstring, tostring

from vcrecovery.report.periodic.document import Block, Chart, Document, Items, Table, Text
from vcrecovery.report.periodic.style import CSS

#: Nothing is loaded and nothing runs, even if something were to get past the tree.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
#: SVG's and its links' names without where they are defined: in HTML they need none.
_XLINK = "{http://www.w3.org/1999/xlink}href"
_WITHOUT_CHARTS = (
    "Charts are drawn where matplotlib is installed: `pip install 'vcrecovery[report]'`. The tables have all."
)


def page(document: Document, draw: Callable[[Chart], str] | None, colours: Mapping[str, str]) -> str:
    """`draw` makes an SVG of a chart; None where nothing can. `colours`: what its stand-ins for colours mean here."""
    html = Element("html", lang="en")
    head = SubElement(html, "head")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    SubElement(head, "meta", name="color-scheme", content="light dark")
    SubElement(head, "title").text = document.title
    SubElement(head, "style").text = CSS
    body = SubElement(html, "body")
    _head(body, document)
    main = SubElement(body, "main")
    for section in document.sections:
        inside = SubElement(main, "section", {"aria-labelledby": section.anchor})
        SubElement(inside, "h2", id=section.anchor).text = section.title
        for block in section.blocks:
            if isinstance(block, Chart):
                if draw is not None:
                    _chart(inside, block, draw(block), colours)
            else:
                _block(inside, block)
    if draw is None:
        _words(SubElement(main, "p", {"class": "about"}), _WITHOUT_CHARTS)
    SubElement(SubElement(body, "footer"), "p").text = document.foot
    return "<!DOCTYPE html>\n" + tostring(html, encoding="unicode", method="html") + "\n"


def _head(body: Element, document: Document) -> None:
    header = SubElement(body, "header")
    SubElement(header, "h1").text = document.title
    SubElement(header, "p", {"class": "about"}).text = document.about
    items = SubElement(header, "ul")
    for line in document.summary:
        _words(SubElement(items, "li"), line)
    links = SubElement(header, "nav", {"aria-label": "Sections"})
    for section in document.sections:
        SubElement(links, "a", href=f"#{section.anchor}").text = section.title


def _block(parent: Element, block: Block) -> None:
    match block:
        case Text():
            _words(SubElement(parent, "p"), block.text)
        case Items():
            items = SubElement(parent, "ul")
            for item in block.items:
                _words(SubElement(items, "li"), item)
        case Table():
            _table(parent, block)


def _table(parent: Element, block: Table) -> None:
    # Roles are said outright: on a phone, where rows are drawn as blocks, some browsers would forget them.
    table = SubElement(parent, "table", role="table")
    _words(SubElement(table, "caption"), block.caption)
    top = SubElement(SubElement(table, "thead", role="rowgroup"), "tr", role="row")
    for n, title in enumerate(block.head):
        cell = SubElement(top, "th", {"scope": "col", "role": "columnheader", **_side(block, n)})
        cell.text = title
    body = SubElement(table, "tbody", role="rowgroup")
    for row in block.rows:
        line = SubElement(body, "tr", role="row")
        for n, text in enumerate(row):
            if n == 0:
                cell = SubElement(line, "th", {"scope": "row", "role": "rowheader"})
            else:
                cell = SubElement(line, "td", {"role": "cell", "data-label": block.head[n], **_side(block, n)})
            _words(cell, text)


def _side(block: Table, column: int) -> dict[str, str]:
    return {"class": "right"} if column in block.right else {}


def _words(parent: Element, text: str) -> None:
    """Text with commands between backticks, and with what was missed set off."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts = [text]
    last: Element | None = None
    for n, part in enumerate(parts):
        if n % 2:
            last = SubElement(parent, "code")
            last.text = part
            continue
        before, mark, after = part.partition("MISSED")
        last = _append(parent, last, before)
        if mark:
            last = SubElement(parent, "strong", {"class": "missed"})
            last.text = mark
            last = _append(parent, last, after)


def _append(parent: Element, last: Element | None, text: str) -> Element | None:
    if last is None:
        parent.text = (parent.text or "") + text
    else:
        last.tail = (last.tail or "") + text
    return last


# -- charts ----------------------------------------------------------------------------------------------------


def _chart(parent: Element, chart: Chart, drawn: str, colours: Mapping[str, str]) -> None:
    for stand_in, meaning in colours.items():
        drawn = drawn.replace(stand_in, meaning)
    picture = fromstring(drawn, XMLParser(encoding="utf-8"))  # noqa: S314  our own
    figure = SubElement(parent, "figure")
    SubElement(figure, "figcaption").text = chart.title
    for element in picture.iter():
        _bare(element, chart.name)
    for part in ("metadata", "defs"):
        # Its style would be the whole page's: `style` has it for charts only.
        for found in picture.findall(part):
            for inner in found.findall("style"):
                found.remove(inner)
            if not len(found) or part == "metadata":
                picture.remove(found)
    for size in ("width", "height"):
        picture.attrib.pop(size, None)
    names = {"title": f"{chart.name}-title", "desc": f"{chart.name}-about"}
    picture.set("role", "img")
    picture.set("aria-labelledby", " ".join(names.values()))
    for n, (tag, text) in enumerate((("title", chart.title), ("desc", chart.about))):
        said = Element(tag, id=names[tag])
        said.text = text
        picture.insert(n, said)
    figure.append(picture)


def _bare(element: Element, name: str) -> None:
    """Its name without a namespace, and its own names apart from those of the page's other pictures."""
    element.tag = element.tag.rpartition("}")[2]
    for key, value in list(_attributes(element)):
        element.attrib.pop(key)
        if key == "id":
            value = f"{name}-{value}"
        elif key == _XLINK:
            key, value = "href", value.replace("#", f"#{name}-")
        element.set(key.rpartition("}")[2], value.replace("url(#", f"url(#{name}-"))


def _attributes(element: Element) -> Iterator[tuple[str, str]]:
    yield from element.attrib.items()
