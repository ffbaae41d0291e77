"""A program's graph as an SVG picture: boxes by row and lane, lines for what follows what, dashes for what is read."""

from __future__ import annotations

import re
from html import escape

from sapwood.drawing.layout import Place, placed
from sapwood.drawing.outline import name_of
from sapwood.trace import Edge, Graph, Kind, Node

BOX_WIDTH, BOX_HEIGHT = 196, 44
COLUMN, ROW = BOX_WIDTH + 36, BOX_HEIGHT + 30
MARGIN, TITLE_HEIGHT = 28, 40
LABEL_CHARACTERS, DETAIL_CHARACTERS = 28, 33

FILLS: dict[Kind, str] = {
    "text": "#f4f5f2",
    "gen": "#d9eed6",
    "select": "#d8e8f7",
    "call": "#fbe7cc",
    "join": "#e9e2f3",
}
STYLE = """
text { font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24312a; }
.title { font-size: 17px; font-weight: 600; }
.label { font-size: 13px; font-weight: 600; }
.plain { font-size: 12px; font-style: italic; }
.detail { font-size: 10.5px; fill: #5d6b62; }
.box { stroke: #7d8c82; stroke-width: 1; }
.next { stroke: #7d8c82; stroke-width: 1.4; fill: none; }
.reads { stroke: #c07a2b; stroke-width: 1.2; stroke-dasharray: 4 3; fill: none; }
"""

NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg(graph: Graph) -> str:
    places = placed(graph)
    width = 2 * MARGIN + COLUMN * max((place.lane + 1 for place in places), default=1)
    height = 2 * MARGIN + TITLE_HEIGHT + ROW * max((place.row + 1 for place in places), default=0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
        f"<defs>{_arrow('next', '#7d8c82')}{_arrow('reads', '#c07a2b')}</defs>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text class="title" x="{MARGIN}" y="{MARGIN + 14}">{_plain(graph.name)}</text>',
        *(_line(edge, places[edge.source], places[edge.target]) for edge in graph.edges),
        *(_box(node, place) for node, place in zip(graph.nodes, places, strict=True)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _arrow(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{colour}"/></marker>'
    )


def _box(node: Node, place: Place) -> str:
    x, y = _corner(place)
    label = _cut(" ".join(node.label.split()) or repr(node.label)[1:-1], LABEL_CHARACTERS)
    said = [node.role or "", name_of(node.branch) if node.branch else ""]
    said += [node.kind] if node.kind != "text" else []
    said += [f"{name} {value}" for name, value in node.details.items()]
    detail = _cut(" · ".join(filter(None, said)), DETAIL_CHARACTERS)
    style = "plain" if node.kind == "text" else "label"
    return (
        f'<g><title>{_plain(node.label)}</title><rect class="box" x="{x}" y="{y}" width="{BOX_WIDTH}" '
        f'height="{BOX_HEIGHT}" rx="8" fill="{FILLS[node.kind]}"/>'
        f'<text class="{style}" x="{x + 10}" y="{y + 18}">{_plain(label)}</text>'
        f'<text class="detail" x="{x + 10}" y="{y + 34}">{_plain(detail)}</text></g>'
    )


def _line(edge: Edge, source: Place, target: Place) -> str:
    """Down from box to box; what is read further below in the same lane goes around what lies between."""
    (from_x, from_y), (to_x, to_y) = _corner(source), _corner(target)
    if edge.kind == "reads" and source.lane == target.lane:
        side, end = from_x + BOX_WIDTH, to_x + BOX_WIDTH
        from_y, to_y = from_y + BOX_HEIGHT // 2, to_y + BOX_HEIGHT // 2
        path = f"M{side},{from_y} C{side + 30},{from_y} {end + 30},{to_y} {end},{to_y}"
    else:
        from_x, from_y, to_x = from_x + BOX_WIDTH // 2, from_y + BOX_HEIGHT, to_x + BOX_WIDTH // 2
        bend = max(12, (to_y - from_y) // 2)
        path = f"M{from_x},{from_y} C{from_x},{from_y + bend} {to_x},{to_y - bend} {to_x},{to_y}"
    return f'<path class="{edge.kind}" d="{path}" marker-end="url(#{edge.kind})"/>'


def _corner(place: Place) -> tuple[int, int]:
    return MARGIN + COLUMN * place.lane, MARGIN + TITLE_HEIGHT + ROW * place.row


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"


def _plain(text: str) -> str:
    return escape(NO_XML.sub("\ufffd", text))
