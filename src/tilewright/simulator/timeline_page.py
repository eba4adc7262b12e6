"""The page of a timeline: the drawing with a zoom along time, beside the source lines."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from tilewright.simulator.timeline import Event
from tilewright.simulator.timeline_drawing import KINDS, drawn

_STYLE = """\
:root{color-scheme:light dark;--page:#fff;--ink:#20262e;--faint:#5f6875;--grid:#e9ecf0;--panel:#f6f7f9;
--line:#d5dae1;--rule:#aab2bd;--lit:#fff3b0;--mark:#c77700}
@media (prefers-color-scheme:dark){:root{--svg-wait:#3d4652;--svg-wait-ink:#ced6e0;--svg-owed:#2b4a36;--svg-owed-ink:#bfe5cb;
--page:#14171c;--ink:#e4e8ee;--faint:#98a3b0;--grid:#2a3039;
--panel:#1c2128;--line:#343b45;--rule:#5a6472;--lit:#4d4610;--mark:#f0a85a}}
*{box-sizing:border-box}
body{font:14px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);margin:0;padding:20px 24px}
h1{font-size:20px;margin:0 0 4px}
p{margin:0 0 10px;max-width:72em;color:var(--faint)}
ul{list-style:none;padding:0;margin:0 0 12px;display:flex;flex-wrap:wrap;gap:4px 20px}
li::before{content:"";display:inline-block;width:12px;height:12px;margin-right:6px;\
background:var(--fill);vertical-align:-1px}
.tools{display:flex;flex-wrap:wrap;gap:6px;align-items:center;margin:0 0 10px}
button{font:inherit;color:inherit;background:var(--panel);border:1px solid var(--line);border-radius:5px;\
padding:2px 10px;cursor:pointer}
:focus-visible{outline:2px solid var(--mark);outline-offset:1px}
#said{min-height:1.5em;color:var(--ink);overflow-wrap:anywhere}
.beside{display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr);gap:12px;align-items:start}
.beside.alone{grid-template-columns:minmax(0,1fr)}
.drawing,.source{overflow:auto;border:1px solid var(--line);border-radius:6px;max-height:calc(100vh - 200px)}
.drawing svg{display:block}
.source{background:var(--panel);padding:6px 0;margin:0;font:12.5px/1.5 ui-monospace,"DejaVu Sans Mono",monospace}
.source div{white-space:pre;min-width:max-content;padding-right:12px}
.source div[data-busy]{cursor:pointer}
.source .n{display:inline-block;width:44px;padding-right:10px;text-align:right;color:var(--faint)}
.source .lit{background:var(--lit)}
.source h2{font:600 12.5px/1.5 system-ui,sans-serif;margin:0;padding:2px 12px;color:var(--faint)}
svg{--svg-page:var(--page);--svg-ink:var(--ink);--svg-faint:var(--faint);--svg-grid:var(--grid);--svg-rule:var(--rule)}
.label{paint-order:stroke;stroke:var(--page);stroke-width:5px}
rect.stage{cursor:pointer}
rect.stage.lit{stroke:var(--mark);stroke-width:2}
@media (max-width:60rem){body{padding:12px}.beside{grid-template-columns:minmax(0,1fr)}\
.drawing,.source{max-height:60vh}}
"""
_NOTE = (
    "Which stage waits for which, by a simple model of time: an operation takes one unit, copies and "
    "products take longer. A thin line is a warp that issues operations. Point at a stage for its "
    "operation, and click it to keep its line; buttons, or the wheel with Ctrl, stretch time."
)
_SCRIPT = """\
"use strict";
const svg = document.querySelector(".drawing svg"), box = document.querySelector(".drawing");
const left = Number(svg.dataset.left), full = Number(svg.dataset.width), right = Number(svg.dataset.right);
const last = Number(svg.dataset.last), height = Number(svg.getAttribute("height"));
const said = document.getElementById("said");
let zoom = 1, kept = null;
const timed = [...svg.querySelectorAll("[data-start]")];
function stretch(next, at) {
  const before = zoom;
  zoom = Math.min(Math.max(next, 1), 64);
  const scale = full * zoom / last, x = (time) => left + time * scale;
  for (const part of timed) {
    const start = Number(part.dataset.start), end = Number(part.dataset.end || start);
    if (part.tagName === "rect") {
      part.setAttribute("x", x(start));
      part.setAttribute("width", Math.max((end - start) * scale, 1));
    } else if (part.tagName === "line") {
      part.setAttribute("x1", x(start));
      part.setAttribute("x2", x(end));
    } else {
      part.setAttribute("x", x(start) + Number(part.dataset.shift || 0));
    }
  }
  const width = left + full * zoom + right;
  svg.setAttribute("width", width);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.querySelector("rect.ground").setAttribute("width", width);
  const middle = at === undefined ? box.clientWidth / 2 : at;
  box.scrollLeft = (box.scrollLeft + middle - left) * zoom / before + left - middle;
  document.getElementById("zoom").textContent = `${Math.round(zoom * 10) / 10}x`;
}
for (const button of document.querySelectorAll("button[data-by]")) {
  button.addEventListener("click", () => stretch(button.dataset.by === "0" ? 1 : zoom * Number(button.dataset.by)));
}
box.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  stretch(zoom * (event.deltaY < 0 ? 1.25 : 0.8), event.clientX - box.getBoundingClientRect().left);
}, {passive: false});
svg.append(...svg.querySelectorAll(".label"));
const labels = [...svg.querySelectorAll(".label")];
box.addEventListener("scroll", () => {
  labels.forEach((label) => label.setAttribute("transform", `translate(${box.scrollLeft} 0)`));
});
const stages = [...svg.querySelectorAll("rect.stage")];
const lines = new Map([...document.querySelectorAll(".source div[data-key]")].map((row) => [row.dataset.key, row]));
for (const stage of stages) { const row = lines.get(stage.dataset.key); if (row) row.dataset.busy = ""; }
function light(key, from) {
  document.querySelectorAll(".lit").forEach((part) => part.classList.remove("lit"));
  if (!key) return;
  stages.forEach((stage) => { if (stage.dataset.key === key) stage.classList.add("lit"); });
  const row = lines.get(key);
  if (!row) return;
  row.classList.add("lit");
  const pane = row.closest(".source");
  if (from === "stage") pane.scrollTop = row.offsetTop - pane.offsetTop - pane.clientHeight / 2;
}
svg.addEventListener("mouseover", (event) => {
  const stage = event.target.closest("rect.stage");
  if (!stage) return;
  said.textContent = stage.querySelector("title").textContent;
  if (!kept) light(stage.dataset.key, "stage");
});
svg.addEventListener("click", (event) => {
  const stage = event.target.closest("rect.stage");
  kept = stage && stage.dataset.key !== kept ? stage.dataset.key : null;
  light(kept, "stage");
});
document.addEventListener("mouseover", (event) => {
  const row = event.target.closest(".source div[data-busy]");
  if (row && !kept) light(row.dataset.key, "line");
});
document.addEventListener("click", (event) => {
  const row = event.target.closest(".source div[data-busy]");
  if (row) { kept = row.dataset.key === kept ? null : row.dataset.key; light(kept, "line"); }
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape") { kept = null; light(null); }
  if (event.key === "+" || event.key === "=") stretch(zoom * 1.5);
  if (event.key === "-") stretch(zoom / 1.5);
});
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_AROUND = 4
"""Lines of source shown before the first and after the last line with events."""


def page(
    events: Sequence[Event],
    title: str,
    *,
    truncated: bool,
    sources: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """A page with the drawing, a legend, and the source.

    ``sources`` has the lines of files by the names that events have.
    """
    there = {event.kind for event in events}
    legend = "".join(
        f'<li style="--fill:{kind.fill}">{html.escape(kind.meaning)}</li>'
        for name, kind in KINDS.items()
        if name in there
    )
    cut = "<p>Later stages are left out.</p>" if truncated else ""
    source = _source(events, sources or {})
    alone = "" if source else " alone"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{html.escape(title)}</h1><p>{_NOTE}</p><ul>{legend}</ul>{cut}"
        '<div class="tools"><button data-by="0.5" aria-label="compress time">&minus;</button>'
        '<output id="zoom">1x</output><button data-by="2" aria-label="stretch time">+</button>'
        '<button data-by="0">whole</button></div><p id="said" aria-live="polite"></p>'
        f'<div class="beside{alone}"><div class="drawing" tabindex="0" role="region" '
        f'aria-label="timeline">{drawn(events)}</div>{source}</div>'
        f"<script>{_SCRIPT}</script></body></html>\n"
    )


def _source(events: Sequence[Event], sources: Mapping[str, Sequence[str]]) -> str:
    """The source lines around those of the events, as HTML."""
    parts: list[str] = []
    for file, texts in sources.items():
        busy = [event.line for event in events if event.file == file and event.line]
        if not busy:
            continue
        first, last = max(min(busy) - _AROUND, 1), min(max(busy) + _AROUND, len(texts))
        rows = "".join(
            f'<div data-key="{html.escape(f"{file}:{number}")}"><span class="n">{number}</span>'
            f"{html.escape(texts[number - 1].rstrip())}</div>"
            for number in range(first, last + 1)
        )
        parts.append(f"<h2>{html.escape(file)}</h2>{rows}")
    if not parts:
        return ""
    return (
        f'<div class="source" tabindex="0" role="region" aria-label="source">{"".join(parts)}</div>'
    )
