"""A report as Markdown, which can be read as it is, and is a mail's text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vcrecovery.core.text import cells
from vcrecovery.report.periodic.document import Block, Document, Items, Table, Text

#: What would be markup or HTML, outside of a command between backticks.
_SPECIAL = re.compile(r"([\\*_\[\]<>&#|~])")


def markdown(document: Document) -> str:
    lines = [f"# {escaped(document.title)}", "", escaped(document.about), ""]
    lines += [f"- {escaped(line)}" for line in document.summary]
    for section in document.sections:
        lines += ["", f"## {escaped(section.title)}"]
        for block in section.blocks:
            told = list(_block(block))
            lines += ["", *told] if told else []
    lines += ["", escaped(document.foot)]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Nothing in it is markup but commands between backticks, which show what they are."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        # One is left over: then none of them is believed.
        return _SPECIAL.sub(r"\\\1", text).replace("`", "\\`")
    return "`".join(part if n % 2 else _SPECIAL.sub(r"\\\1", part) for n, part in enumerate(parts))


def _block(block: Block) -> Iterator[str]:
    match block:
        case Text():
            yield escaped(block.text)
        case Items():
            yield from (f"- {escaped(item)}" for item in block.items)
        case Table():
            yield escaped(f"{block.caption}:")
            yield ""
            yield from _table(block)
        case _:
            # A picture shows what the table beside it says.
            return


def _table(table: Table) -> Iterator[str]:
    rows = [[_cell(cell) for cell in row] for row in (table.head, *table.rows)]
    widths = [max(3, *(cells(row[n]) for row in rows)) for n in range(len(table.head))]
    yield _row(rows[0], widths, table)
    yield "|" + "|".join("-" * (size + 1) + (":" if n in table.right else "-") for n, size in enumerate(widths)) + "|"
    for row in rows[1:]:
        yield _row(row, widths, table)


def _row(row: Sequence[str], widths: Sequence[int], table: Table) -> str:
    padded = []
    for n, (cell, size) in enumerate(zip(row, widths, strict=True)):
        room = " " * (size - cells(cell))
        padded.append(room + cell if n in table.right else cell + room)
    return f"| {' | '.join(padded)} |"


def _cell(text: str) -> str:
    # In a table a bar ends the cell, also in a command.
    return re.sub(r"(?<!\\)\|", r"\\|", escaped(text))
