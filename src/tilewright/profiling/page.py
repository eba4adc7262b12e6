"""Profiles as an HTML page: roofline, timeline of a block, cost by source line, and changes."""

from __future__ import annotations

import html
import linecache
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tilewright.explain.page_style import STYLE
from tilewright.model.comparison import Change, Compared
from tilewright.model.profile import Profile
from tilewright.model.report import (
    MEANINGS,
    Cost,
    Launch,
    by_line,
    by_operation,
    by_reason,
    byte_text,
    modelled_time,
    time_of,
)
from tilewright.model.tables import KNOWN_ERROR, MODEL_VERSION, Gpu
from tilewright.profiling.drawings import KINDS, roofline, timeline

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
#: Limits: context lines around costly ones, listed instructions, and rows of other tables.
_AROUND, _LISTED, _ROWS = 2, 2000, 12

_STYLE = """\
section.launch { border-top: 1px solid var(--line); margin-top: 2rem; }
.bar { display: grid; grid-template-columns: 5rem 3rem minmax(3rem, 16rem) minmax(0, 1fr); gap: 0 .6rem; align-items: center; }
.bar i { display: block; height: .8rem; background: var(--one); border-radius: 2px; }
.bar.bound i { background: var(--clash); }
.bar .faint { overflow-wrap: anywhere; }
pre.heat { margin: 0; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; overflow: auto; max-height: 32rem; padding: .4rem 0; }
pre.heat span { display: block; min-width: max-content; padding-right: 1rem;
  background: color-mix(in srgb, var(--clash) calc(var(--heat, 0) * 55%), transparent); }
pre.heat b { display: inline-block; width: 3.4rem; text-align: right; font-weight: 400; padding-right: .6rem; }
pre.heat em { display: inline-block; width: 3.2rem; text-align: right; font-style: normal; color: var(--faint); padding-right: .8rem; user-select: none; }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; }
svg .quiet { fill: var(--faint); }
svg .axis { stroke: var(--line); }
svg .roof { stroke: var(--two); fill: none; stroke-width: 1.5; }
svg .point { fill: var(--clash); }
svg .was { fill: none; stroke: var(--clash); stroke-width: 1.5; }
.k-wait { fill: var(--clash-back); }
.k-tensor { fill: var(--good); } .k-tma, .k-global { fill: var(--two); } .k-shared { fill: var(--one); }
.k-sfu { fill: #a05bd0; } .k-sync { fill: var(--faint); } .k-other { fill: var(--one-back); stroke: var(--line); stroke-width: .5; }
ul.keys { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; padding: 0; margin: .3rem 0; }
ul.keys svg { vertical-align: -1px; margin-right: .35rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.worse { color: var(--bad); } .better { color: var(--good); }
@media (max-width: 44rem) {
  .bar { grid-template-columns: 4.2rem 2.6rem minmax(0, 1fr); }
  .bar .faint { display: none; }
}
"""


def page(launches: Sequence[Launch], gpu: Gpu, found: Sequence[Compared] | None = None) -> str:
    """A self-contained page, without scripts or network access."""
    title = f"Profile on {gpu.title}"
    body = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="lead">Modelled, not measured: model {MODEL_VERSION}; known error: {_text(KNOWN_ERROR)}.</p>',
        *_overview(launches),
        *(_comparison(found) if found is not None else ()),
    ]
    for number, launch in enumerate(launches):
        before = found[number] if found is not None else None
        body += _launch(launch, gpu, number, before)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>\n{STYLE}{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _text(text: object) -> str:
    return html.escape(str(text))


def _overview(launches: Sequence[Launch]) -> Iterator[str]:
    if len(launches) < 2:
        return
    whole = sum(launch.profile.seconds * launch.count for launch in launches)
    rows = [
        (
            f'<a href="#launch-{number}">{_text(launch.name)}</a>',
            str(launch.count),
            modelled_time(launch.profile),
            f"{launch.profile.seconds * launch.count / whole:.0%}",
            _text(MEANINGS.get(launch.profile.bound_by, launch.profile.bound_by)),
        )
        for number, launch in enumerate(launches)
    ]
    yield f"<p>All launches: {time_of(whole)}.</p>"
    yield _table(("launch", "times", "each", "share", "bound by"), rows, numbers=(1, 2, 3))


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = ()
) -> str:
    """A table whose cells are HTML."""

    def cells(kind: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{kind}{' class=number' if at in numbers else ''}>{cell}</{kind}>"
            for at, cell in enumerate(row)
        )

    lines = [f"<tr>{cells('th', head)}</tr>", *(f"<tr>{cells('td', row)}</tr>" for row in rows)]
    return f'<div class="scroll"><table class="summary">{"".join(lines)}</table></div>'


def _launch(launch: Launch, gpu: Gpu, number: int, before: Compared | None) -> Iterator[str]:
    found = launch.profile
    often = f", {launch.count} times" if launch.count > 1 else ""
    yield f'<section class="launch" id="launch-{number}">'
    yield f"<h2>{_text(launch.name)}: {modelled_time(found)}{often}</h2>"
    yield "".join(f"<p>At least, because {_text(why)}.</p>" for why in found.at_least)
    yield _facts(found)
    yield "<h3>Utilization of each unit</h3>"
    for name, share in found.shares.items():
        if share >= 0.005:
            bound = " bound" if name == found.bound_by else ""
            yield (
                f'<div class="bar{bound}"><code>{name}</code><span>{share:.0%}</span>'
                f'<i style="width:{min(share, 1):.1%}"></i><span class="faint">{_text(MEANINGS.get(name, ""))}</span></div>'
            )
    yield "<h3>Roofline</h3>"
    old = before.before if before is not None else None
    yield f'<div class="scroll">{roofline(found, gpu, old)}</div>'
    yield "<h3>Timeline of a block that runs alone, by warp</h3>"
    yield _keys()
    yield f'<div class="scroll">{timeline(found)}</div>'
    yield "<h3>Cost by source line</h3>"
    yield from _heat(by_line(found))
    yield "<h3>Cost by operation</h3>"
    rows = [
        (
            f"<code>{_text(c.name)}</code>",
            f"{c.share:.1%}",
            f"{c.executions:,.0f}",
            str(c.instructions),
        )
        for c in by_operation(found)[:_ROWS]
    ]
    head = ("operation", "share", "executed by warps of a block", "instructions")
    yield _table(head, rows, numbers=(1, 2, 3))
    yield from _waits(found)
    yield from _instructions(found)
    if found.hints:
        yield "<h3>What would help, according to the model</h3><ul>"
        yield "".join(f"<li>{_text(what)}</li>" for what in found.hints)
        yield "</ul>"
    if found.blind:
        yield "<h3>What the model ignores here</h3><ul>"
        yield "".join(f"<li>{_text(what)}</li>" for what in found.blind)
        yield "</ul>"
    yield "</section>"


def _facts(found: Profile) -> str:
    occupancy = found.occupancy
    far = found.seconds / found.roofline_seconds if found.roofline_seconds else 0
    rows = {
        "bound by": MEANINGS.get(found.bound_by, found.bound_by)
        + (f", {far:.2f} times the roofline of {time_of(found.roofline_seconds)}" if far else ""),
        "grid": f"{'x'.join(map(str, found.grid))} blocks of {'x'.join(map(str, found.threads))} threads",
        "occupancy": f"{occupancy.blocks} blocks, {occupancy.warps} of {occupancy.most_warps} warps, limited by "
        f"{occupancy.limit}",
        "waves of blocks": f"{found.rounds:.2f}; {found.tail:.0%} of their places are used",
        "registers": f"{found.registers}, {found.spills} spill instructions",
        "shared memory": byte_text(found.shared_bytes),
        "a block alone": f"{found.block_latency:,} clocks, {found.instructions:,.0f} warp instructions",
        "bytes": f"{byte_text(found.loaded_bytes)} loaded, {byte_text(found.stored_bytes)} stored through L2; "
        f"{byte_text(found.memory_bytes)} of memory",
    }
    if found.flops:
        rows["tensor units"] = f"{found.flops / found.seconds / 1e12:.0f} Tflop/s"
    if found.simulated:
        rows["simulated"] = f"{found.simulated} blocks, for conflicts, sectors and bytes"
    items = "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in rows.items())
    return f'<dl class="facts">{items}</dl>'


def _keys() -> str:
    items = "".join(
        f'<li><svg width="12" height="12"><rect width="12" height="12" class="k-{kind}"/></svg>{words}</li>'
        for kind, words in KINDS.items()
    )
    return f'<ul class="keys">{items}</ul>'


def _heat(lines: Sequence[Cost]) -> Iterator[str]:
    """Source files, with lines shaded by cost."""
    files: defaultdict[str, dict[int, Cost]] = defaultdict(dict)
    for cost in lines:
        if cost.line:
            files[cost.file][cost.line] = cost
    most = max((cost.share for cost in lines), default=1.0) or 1.0
    if not files:
        yield "<p>The code has no line information.</p>"
    for file, costs in files.items():
        text = linecache.getlines(file)
        shown = sorted(
            {n for line in costs for n in range(max(1, line - _AROUND), line + _AROUND + 1)}
        )
        rows: list[str] = []
        last = shown[0] - 1
        for number in shown:
            if number > len(text) and number not in costs:
                continue
            if number > last + 1:
                rows.append('<span class="faint">...</span>')
            last = number
            source = text[number - 1].rstrip() if number <= len(text) else ""
            cost = costs.get(number)
            share = f"{cost.share:.1%}" if cost is not None else ""
            heat = f' style="--heat:{cost.share / most:.3f}"' if cost is not None else ""
            rows.append(f"<span{heat}><b>{share}</b><em>{number}</em>{_text(source)}</span>")
        yield f'<p class="faint"><code>{_text(file)}</code></p><pre class="heat">{"".join(rows)}</pre>'
    nowhere = sum(cost.share for cost in lines if not cost.line)
    if files and nowhere >= 0.001:
        yield f"<p>{nowhere:.1%} has no line information.</p>"


def _waits(found: Profile) -> Iterator[str]:
    if not found.stalls:
        return
    yield "<h3>Stalls of a block that runs alone</h3>"
    rows = [(_text(name), f"{share:.1%}") for name, share in by_reason(found)[:_ROWS]]
    yield _table(("waits for", "share of all waiting"), rows, numbers=(1,))
    names = {cost.address: cost for cost in found.costs}
    rows = []
    for stall in found.stalls[:_ROWS]:
        at, of = names.get(stall.address), names.get(stall.producer)
        itself = stall.address == stall.producer
        rows.append(
            (
                f"<code>{_text(at.text if at else hex(stall.address))}</code>",
                "itself"
                if itself
                else f"<code>{_text(of.text if of else hex(stall.producer))}</code>",
                _text(stall.reason),
                f"{stall.clocks:,.0f}",
            )
        )
    yield _table(("waits", "for", "reason", "clocks of all warps"), rows, numbers=(3,))


def _instructions(found: Profile) -> Iterator[str]:
    """The machine code in order, shaded by cost."""
    costs = sorted(found.costs, key=lambda cost: cost.address)[:_LISTED]
    most = max((cost.share for cost in costs), default=1.0) or 1.0
    rows = [
        f'<span style="--heat:{cost.share / most:.3f}"><b>{cost.share:.1%}</b><em>{cost.address:x}</em>'
        f"{_text(cost.text)}</span>"
        for cost in costs
    ]
    yield f"<details><summary>Executed machine code ({len(found.costs)} instructions)</summary>"
    yield f'<pre class="heat">{"".join(rows)}</pre></details>'


def _comparison(found: Sequence[Compared]) -> Iterator[str]:
    yield "<h2>Before and after</h2>"
    for each in found:
        if each.before is None:
            yield f"<p>{_text(each.name)}: {time_of(each.after)}, new.</p>"
            continue
        way = "better" if each.after < each.before else "worse" if each.after > each.before else ""
        yield (
            f"<h3>{_text(each.name)}: {time_of(each.before)} to {time_of(each.after)}, "
            f'<span class="{way}">{each.after / each.before:.2f} times</span></h3>'
        )
        rows = [_change(change) for change in each.numbers]
        yield _table(("", "before", "after"), rows, numbers=(1, 2))
        rows = [
            (f"<code>{_text(c.name)}</code>", time_of(c.before), time_of(c.after))
            for c in each.lines[:_ROWS]
            if max(c.before, c.after) >= 0.005 * each.after
        ]
        yield _table(("line", "before", "after"), rows, numbers=(1, 2))


def _change(change: Change) -> tuple[str, str, str]:
    if change.is_share:
        return f"busy: {_text(change.name)}", f"{change.before:.0%}", f"{change.after:.0%}"
    return _text(change.name), f"{change.before:,.0f}", f"{change.after:,.0f}"
