"""A kernel at all its levels as one self-contained HTML page, without network access or further files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from tilewright import __version__
from tilewright.diagnostics.display import printable
from tilewright.dialects.upstream.gpu.kernels import FuncOp
from tilewright.explain.about import MARK, About
from tilewright.explain.analyses import ANALYSES
from tilewright.explain.changes import Change, DiffLine
from tilewright.explain.colours import coloured
from tilewright.explain.colours import html_text as _text
from tilewright.explain.footprint_drawing import draw_tensors
from tilewright.explain.footprints import Footprint, Footprints
from tilewright.explain.levels import AnalysisRemarks, Explanation, Level, Line
from tilewright.explain.page_script import SCRIPT
from tilewright.explain.page_style import STYLE
from tilewright.explain.stages import AnyKernel
from tilewright.machine.tensors import format_box
from tilewright.text.naming import as_python

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_MAX_TOLD = 8


_NOTHING = About()


def render_page(
    explanation: Explanation,
    footprints: Footprints | None = None,
    *,
    how_to_run: str = "",
    about: About = _NOTHING,
) -> str:
    """The page. Without ``footprints``, it shows how to get them: ``how_to_run`` is a command."""
    heading = f"Kernel {explanation.kernel.symbol}"
    body = [
        _header(explanation, heading, about),
        _levels(explanation),
        _summary(explanation, footprints, about),
        _remarks(explanation),
        _changes(explanation),
        _tokens(explanation),
        _footprints(explanation, footprints, how_to_run),
    ]
    data = json.dumps(_data(explanation, footprints), allow_nan=False).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'{MARK} {__version__}">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(heading)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + f'\n</main>\n<script type="application/json" id="page-data">{data}</script>\n'
        f"<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _data(explanation: Explanation, footprints: Footprints | None) -> dict[str, object]:
    """The data that the script needs besides the page itself."""
    facts = {
        key: {name: dict(by_line) for name, by_line in found.remarks.items()}
        for key, found in explanation.analyses.items()
    }
    data: dict[str, object] = {"analyses": list(ANALYSES), "facts": facts}
    if footprints is not None:
        data["footprints"] = {
            "level": explanation.shown,
            "blocks": footprints.blocks,
            "touched": _touched(explanation, footprints),
        }
    return data


# Header.


def _header(explanation: Explanation, heading: str, about: About) -> str:
    words = [f"<code>{_text(about.place)}</code>"] if about.place else []
    words.append(f"for {_text(explanation.target)}")
    constants = [f"{name} {what}" for name, what in about.kind.items() if what.startswith("= ")]
    if constants:
        words.append(f"<code>{_text(', '.join(constants))}</code>")
    return (
        f"<header>\n<h1>{_text(heading)}</h1>\n"
        f'<p class="faint lead">{" · ".join(words)}</p>\n{_others(about)}</header>'
    )


def _others(about: About) -> str:
    """Navigation to the other kernels of the program: links, and commands that generate their pages."""
    links = "".join(
        f'<li><a href="{_text(page)}">{_text(label)}</a></li>'
        for label, page, _ in about.others
        if page
    )
    unseen = [(label, command) for label, page, command in about.others if not page]
    items = "".join(
        f"<li>{_text(label)} <code>{_text(command)}</code></li>" for label, command in unseen
    )
    parts = [f'<ul class="others">{links}</ul>'] if links else []
    if unseen:
        parts.append(
            f'<details class="others"><summary>{len(unseen)} more of this program</summary>'
            f'<ul class="others">{items}</ul></details>'
        )
    if not parts:
        return ""
    return f'<nav aria-label="further kernels of the program">{"".join(parts)}</nav>\n'


def _summary(explanation: Explanation, footprints: Footprints | None, about: About) -> str:
    kernel, rows = explanation.kernel, []
    if about.kind:
        listed = "".join(
            f"<li><code>{_text(name)}</code> <code>{_text(what)}</code></li>"
            for name, what in about.kind.items()
        )
        rows.append(("compiled for", f'<ul class="kinds">{listed}</ul>'))
    parameters = ", ".join(_parameters(kernel)) or "none"
    rows.append(("parameters", f"<code>{_text(parameters)}</code>"))
    rows.append(("hints", f"<code>{_text(_hints(kernel))}</code>"))
    rows.append(("target", _text(explanation.target)))
    if footprints is not None:
        rows.append(("grid", _text(" x ".join(map(str, footprints.grid)))))
    for level in explanation.levels:
        if level.operations is not None:
            rows.append((f"operations, {_text(level.title)}", _counts(level)))
    for level in explanation.levels:
        if level.key in explanation.analyses:
            peak = _text(explanation.analyses[level.key].peak)
            rows.append((f"tiles alive at once, {_text(level.title)}", f"at most {peak}"))
    rows += [(f"no {_text(title)}", _text(why)) for title, why in explanation.missing.items()]
    facts = "\n".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    return f'<section>\n<h2>The kernel</h2>\n<dl class="facts">\n{facts}\n</dl>\n</section>'


def _parameters(kernel: AnyKernel) -> list[str]:
    arguments = kernel.arguments if isinstance(kernel, FuncOp) else kernel.block.args
    return [
        as_python(f"%{argument.name_hint or f'arg{number}'}: {_type(kernel, argument.type)}")
        for number, argument in enumerate(arguments)
    ]


def _type(kernel: AnyKernel, ty: object) -> str:
    if isinstance(kernel, FuncOp):
        return str(ty)
    shown: str = kernel.TYPE_SYNTAX.format(ty)  # pyright: ignore[reportArgumentType]
    return shown


def _hints(kernel: AnyKernel) -> str:
    """The kernel's compilation hints."""
    for name in ("optimization_hints", "kernel_spec"):
        if (found := kernel.properties.get(name)) is not None:
            said = str(found).partition("<")[2].removesuffix(">")
            return "none" if said in ("", "default = {}") else said
    return "none"


def _counts(level: Level) -> str:
    assert level.operations is not None
    total = sum(level.operations.values())
    ranked = sorted(level.operations.items(), key=lambda pair: (-pair[1], pair[0]))
    last = Counter(name.partition(".")[2] for name in level.operations)

    def shown(name: str) -> str:
        """The full name if dialects share the rest, as ``gpu.shuffle`` and ``vector.shuffle`` do."""
        rest = name.partition(".")[2]
        return rest if last[rest] == 1 and rest else name

    # Keeps a number on the line of its name.
    most = ", ".join(f"{count}\N{NO-BREAK SPACE}{shown(name)}" for name, count in ranked)
    return f'{total} <span class="faint">({_text(most)})</span>'


# Levels.


def _levels(explanation: Explanation) -> str:
    first = _shown_first(explanation)
    boxes = "".join(
        f'<label class="level-box"><input type="checkbox" data-shows="level-{level.key}"'
        f"{' checked' if level.key in first else ''}>{_text(level.title)}</label>"
        for level in explanation.levels
    )
    missing = "".join(
        f'<label class="level-box faint" title="{_text(why)}"><input type="checkbox" disabled>'
        f"{_text(title)}</label>"
        for title, why in explanation.missing.items()
    )
    columns = "\n".join(_column(level, level.key in first) for level in explanation.levels)
    facts = (
        ""
        if not explanation.analyses
        else (
            '<div class="here-facts" id="here" role="region" aria-label="facts at the line" '
            'aria-live="polite" tabindex="0"></div>\n'
        )
    )
    return (
        '<section aria-labelledby="levels-title">\n<h2 id="levels-title" class="unseen">Levels</h2>\n'
        f'<div class="tools" role="group" aria-label="what to show">{boxes}{missing}'
        '<label><input type="checkbox" id="wrap">wrap lines</label></div>\n'
        f'<div class="levels" id="levels">\n{columns}\n</div>\n'
        '<p class="faint">Lines that come from the same operation light up together. Click a line, or '
        "press Enter on it, to keep it; Escape lets it go. Arrow keys move between lines and levels."
        f"</p>\n{_analysis_choice(explanation)}{facts}</section>"
    )


def _shown_first(explanation: Explanation) -> frozenset[str]:
    """The levels that are visible initially: the source beside the first IR, or the tile levels."""
    keys = [level.key for level in explanation.levels]
    if keys[0] == "source":
        return frozenset(("source", explanation.shown))
    tiles = [key for key in keys if key in explanation.analyses or key == explanation.shown]
    return frozenset(tiles if explanation.analyses else ("nvgpu", "ptx"))


def _column(level: Level, is_shown: bool) -> str:
    rows = "".join(
        _row(level, number, line) for number, line in enumerate(level.lines, level.first)
    )
    source = " data-source" if level.language == "python" else ""
    hidden = "" if is_shown else " hidden"
    about = f'<span class="faint">{_text(level.about)}</span>' if level.about else ""
    return (
        f'<section class="level" id="level-{level.key}"{source}{hidden}>\n'
        f"<h3>{_text(level.title)}{about}</h3>\n"
        f'<div class="lines code" role="listbox" data-level="{level.key}" '
        f'aria-label="{_text(level.title)}">{rows}</div>\n</section>'
    )


def _row(level: Level, number: int, line: Line) -> str:
    links = f' data-links="{" ".join(map(str, line.links))}"' if line.links else ""
    shown = coloured(line.text, level.language)
    return (
        f'<div class="row" id="{level.key}-{number}" role="option" aria-selected="false" '
        f'tabindex="-1"{links}><span class="n">{number}</span>{shown}\n</div>'
    )


# Facts, changes, tokens.


def _analysis_choice(explanation: Explanation) -> str:
    if not explanation.analyses:
        return ""
    options = "".join(
        f'<option value="{name}" title="{_text(analysis.summary)}">{name}</option>'
        for name, analysis in ANALYSES.items()
    )
    return (
        '<div class="tools"><label>facts of <select id="analysis">'
        f'<option value="all">all analyses</option>{options}</select></label></div>\n'
    )


def _remarks(explanation: Explanation) -> str:
    levels = [level for level in explanation.levels if level.key in explanation.analyses]
    if not levels:
        return ""
    # The result of the passes comes first, because it is what is compiled.
    options = "".join(
        f'<option value="{level.key}">{_text(level.title)}</option>' for level in reversed(levels)
    )
    about = "; ".join(f"{name}: {analysis.summary}" for name, analysis in ANALYSES.items())
    return (
        "<section>\n<h2>Facts</h2>\n"
        f'<p class="faint">{_text(about)}.</p>\n'
        '<div class="tools"><label>level <select id="remark-level">'
        f"{options}</select></label></div>\n"
        '<div class="remark-table" tabindex="0" role="region" aria-label="facts by line"><table>'
        "<thead><tr><th>line</th><th>analysis</th><th>fact</th></tr></thead>"
        '<tbody id="remarks"></tbody></table></div>\n</section>'
    )


def _changes(explanation: Explanation) -> str:
    if not explanation.changes:
        return ""
    parts = "\n".join(_change(n, change) for n, change in enumerate(explanation.changes, 1))
    total = sum(change.seconds for change in explanation.changes)
    return (
        "<section>\n<h2>What each pass changed</h2>\n"
        f'<p class="faint">{len(explanation.changes)} passes in {total * 1000:.2f} ms.</p>\n'
        f"{parts}\n</section>"
    )


def _change(number: int, change: Change) -> str:
    added, removed = change.count("added"), change.count("removed")
    verdict = (
        f'<span class="plus">+{added}</span> <span class="minus">-{removed}</span>'
        if change.hunks
        else '<span class="faint">nothing</span>'
    )
    rows = '<span class="row gap"><span class="n">...</span></span>'.join(
        "".join(map(_diff_row, hunk)) for hunk in change.hunks
    )
    diff = (
        f'<pre class="code diff" tabindex="0" role="region" aria-label="lines that '
        f'{_text(change.name)} changed">{rows}</pre>'
        if rows
        else '<p class="faint">The pass changed nothing.</p>'
    )
    return (
        f'<details class="change"><summary>{number}. <code>{_text(change.name)}</code> {verdict} '
        f'<span class="time">{change.seconds * 1000:.2f} ms</span></summary>\n{diff}\n</details>'
    )


_SIGNS = {"same": " ", "added": "+", "removed": "-"}


def _diff_row(line: DiffLine) -> str:
    numbers = "".join(
        f'<span class="n">{"" if number is None else number}</span>'
        for number in (line.before, line.after)
    )
    sign = f'<span class="sign">{_SIGNS[line.kind]}</span>'
    return f'<span class="row {line.kind}">{numbers}{sign}{_text(line.text)}\n</span>'


def _tokens(explanation: Explanation) -> str:
    if not explanation.analyses:
        return ""
    figures = "\n".join(
        _token_figure(level, explanation.analyses[level.key])
        for level in explanation.levels
        if level.key in explanation.analyses
    )
    return (
        "<section>\n<h2>Order of memory effects</h2>\n"
        '<p class="faint">An arrow leads from an effect to one that waits for it, a dashed one to the '
        "next iteration of a loop. Each is named by its line.</p>\n"
        f'<div class="figures tokens">\n{figures}\n</div>\n</section>'
    )


def _token_figure(level: Level, found: AnalysisRemarks) -> str:
    caption = _text(level.title) + ("" if found.edges else ": no effect waits for another")
    return (
        f'<figure>\n<figcaption>{caption}</figcaption>\n<div class="scroll">{found.tokens}</div>'
        "\n</figure>"
    )


# Memory footprints.


def _footprints(explanation: Explanation, footprints: Footprints | None, how_to_run: str) -> str:
    head = "<section>\n<h2>Memory that each tile block touches</h2>\n"
    if footprints is None and not explanation.analyses:
        return ""
    if footprints is None:
        how = f'\n<pre class="how">{_text(how_to_run)}</pre>' if how_to_run else ""
        return (
            f"{head}<p>Not recorded: give a grid and the arguments of the kernel, as for "
            f"<code>tilewright run</code>.</p>{how}\n</section>"
        )
    if not footprints.blocks:
        return f"{head}<p>No tile block touches any memory.</p>\n</section>"
    links = {
        access: " ".join(map(str, _links_of(explanation, access))) for access in footprints.accesses
    }
    drawings = draw_tensors(footprints.accesses, footprints.blocks, links)
    figures = "\n".join(
        f"<figure>\n{drawing.svg}\n<figcaption><code>{_text(drawing.tensor)}</code> "
        f"({_text(' x '.join(map(str, drawing.shape)) or 'a scalar')}). "
        f"{_text(' '.join(drawing.notes))}</figcaption>\n</figure>"
        for drawing in drawings
    )
    cut = (
        f'<p class="faint">{footprints.left_out} more accesses were not recorded.</p>\n'
        if footprints.left_out
        else ""
    )
    legend = " ".join(
        f'<span><span class="key {kind}"></span>{kind}</span>'
        for kind in sorted({access.kind for access in footprints.accesses})
    )
    return (
        f'{head}<div class="tools"><label for="block">tile block <output id="block-name" '
        f'for="block"></output></label><input type="range" id="block" min="0" '
        f'max="{len(footprints.blocks) - 1}" value="0">{legend}</div>\n{cut}'
        f'<div class="figures" id="drawings">\n{figures}\n</div>\n'
        '<ul class="touched" id="touched" aria-live="polite"></ul>\n</section>'
    )


def _links_of(explanation: Explanation, access: Footprint) -> Sequence[int]:
    line = explanation.line_of[access.op]
    (level,) = (level for level in explanation.levels if level.key == explanation.shown)
    return level.lines[line - level.first].links


def _touched(explanation: Explanation, footprints: Footprints) -> list[list[tuple[str, int, str]]]:
    """The accesses of each tile block: kind, line, and the elements as text."""
    return [
        [
            (access.kind, explanation.line_of[access.op], _words(access, boxes))
            for access in footprints.accesses
            if (boxes := access.boxes.get(block)) is not None
        ]
        for block in footprints.blocks
    ]


def _words(access: Footprint, boxes: Iterable[tuple[tuple[int, int], ...]]) -> str:
    ranges = [f"[{format_box(box)}]" for box in boxes]
    told = " ".join(ranges[:_MAX_TOLD])
    more = f" and {len(ranges) - _MAX_TOLD} more" if len(ranges) > _MAX_TOLD else ""
    return printable(f"{access.kind} of {access.tensor}{told}{more}")
