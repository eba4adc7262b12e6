"""A kernel at every level of its compilation, with corresponding lines linked."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

from xdsl.dialects import builtin
from xdsl.ir import Operation

from tilewright.analysis.tileaa import Facts
from tilewright.diagnostics import SourceFile, TileIRError, define_code
from tilewright.dialects.cuda_tile.debug_info import source_position
from tilewright.dialects.cuda_tile.ops.module import EntryOp, ModuleOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.source_map import Source, TextSource, source_of
from tilewright.explain.analyses import ANALYSES, UNCOUNTED, functions, line_name, remarks_of
from tilewright.explain.changes import Change, compare
from tilewright.explain.folding import folded_listing
from tilewright.explain.line_tables import READERS
from tilewright.explain.stages import (
    DEFAULT_TARGET,
    LEVELS,
    AnyKernel,
    Stages,
    checked_target,
    is_of_threads,
    made_of,
    thread_kernel,
)
from tilewright.explain.token_graph import to_svg
from tilewright.explain.values import values_below
from tilewright.launching.modules import KernelOp, kernel_of, runnable_module
from tilewright.lowering import TileAAOptions, lower_to_tileaa
from tilewright.machine.sanitize.listing import read_source
from tilewright.nesting import deep_recursion
from tilewright.passes import parse_pipeline, run_pipeline
from tilewright.passes.base import NV_TILEAA, TilePass, clone_with_locations
from tilewright.passes.pipelines import PassTiming
from tilewright.text import Listing, list_text

NOT_SHOWN = define_code(
    "explain-passes",
    "The page of a kernel shows nv_tileaa passes only.",
    "`tilewright opt --list-passes` lists them; those of the pipeline `tileaa` are the usual "
    "ones. Use `tilewright opt --print-after` for cuda_tile passes.",
)

#: The tile levels, which have analyses and passes.
_OF_TILES = frozenset({"cuda_tile", "nv_tileaa", "nv_tileaa_passes"})
#: The keys of all levels except sources, from the highest.
_ORDER = ("tile", "lowered", "final", *(key for key in LEVELS if key not in _OF_TILES))
MAX_LINES = 20_000
"""The limit of displayed lines of a level; further ones are counted."""

# Context lines of a source file around those of the kernel.
_AROUND = 12
_NUMBERED = re.compile(r"%\d")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a level. ``links``: the operations to which it belongs; lines that share one correspond."""

    text: str
    links: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Level:
    """One form of the kernel. ``key`` is short and unique; ``first`` is the number of the first line; ``operations``
    counts those of the kernel by name, for IR. ``language`` is that of ``stages.LevelKind``, or ``python`` for a
    source.
    """

    key: str
    title: str
    about: str
    lines: tuple[Line, ...]
    first: int = 1
    operations: Mapping[str, int] | None = None
    language: str = "mlir"


@dataclass(frozen=True, slots=True)
class AnalysisRemarks:
    """The results of the analyses on a level of ``nv_tileaa``.

    ``remarks``: by analysis and line, from 1. ``peak``: the maximum bytes of live tiles, as text. ``tokens``: the
    kernel's token graph as SVG, whose nodes link to lines of the level; ``edges`` is its number of edges.
    """

    remarks: Mapping[str, Mapping[int, tuple[str, ...]]]
    peak: str
    tokens: str
    edges: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """All levels of a kernel, from its source to the result of the passes.

    ``module`` contains the kernel and what it needs; ``line_of`` has the line, from 1, of each of its operations in the
    level ``shown``. ``missing``: the reasons for levels that cannot be shown, by title.
    """

    module: Operation
    kernel: AnyKernel
    target: str
    levels: tuple[Level, ...]
    analyses: Mapping[str, AnalysisRemarks]
    changes: tuple[Change, ...]
    shown: str
    line_of: Mapping[Operation, int]
    missing: Mapping[str, str]

    @property
    def tile_kernel(self) -> KernelOp:
        """The kernel, which must be of a tile level."""
        kernel = self.kernel
        assert isinstance(kernel, EntryOp | FuncOp), "a kernel of threads"
        return kernel


def explain_kernel(
    module: Operation,
    entry: str | None = None,
    *,
    target: str = DEFAULT_TARGET,
    passes: str = "tileaa",
    grid: Sequence[int] | None = None,
    folded: bool = False,
    below: Container[str] = tuple(LEVELS),
) -> Explanation:
    """Follow a kernel of a verified module through its levels.

    The module, of ``cuda_tile``, ``nv_tileaa`` or ``gpu``, is not changed. ``target`` is the GPU architecture; ``grid``
    is assumed by the analyses. ``folded`` omits assumptions and shows names as in Python, for kernels of cuTile.
    ``below`` selects the levels below ``nv_tileaa``.

    Raises ``TileIRError`` for unknown kernels and targets, for passes that are unknown or of another level
    (``explain-passes``), and if the lowering to ``nv_tileaa`` rejects the kernel; errors at other levels are recorded
    in ``missing``.
    """
    pipeline = checked_passes(passes)
    checked_target(target)
    if is_of_threads(module):
        kernel_name = thread_kernel(module, entry).symbol
        own = module
    else:
        kernel_name = kernel_of(module, entry).symbol
        own = _module_of_kernel(runnable_module(module), kernel_name)
    with deep_recursion():
        return _Builder(own, Stages(own, kernel_name, target), grid, folded).build(pipeline, below)


def checked_passes(text: str) -> list[TilePass]:
    """Parse a pipeline. Raises ``TileIRError`` for unknown passes, and for those that are not on nv_tileaa."""
    found = parse_pipeline(text)
    for each in found:
        if each.LEVEL is not NV_TILEAA or each.RESULT is not None:
            raise TileIRError.single(
                NOT_SHOWN,
                f"'{each.name}' is not an nv_tileaa pass",
                help="leave it out; the kernel is lowered to nv_tileaa before the passes",
            )
    return found


def _module_of_kernel(module: Operation, kernel_name: str) -> Operation:
    """A copy of a module without the other kernels, whose values all have names."""
    copy = clone_with_locations(module, {})
    if isinstance(copy, ModuleOp):
        for other in [op for op in copy.entries if op.symbol != kernel_name]:
            other.detach()
            other.erase()
    name_for_good(copy)
    return copy


def name_for_good(module: Operation) -> Listing:
    """Set the name of every value to its printed name, so that it survives passes.

    Printed numbers get a letter, as in ``%v12``; names that the printer had to number get a new name, ``%sum.3`` for
    ``%sum_3``.
    """
    listing = list_text(module)
    values = values_below(module)
    taken = {value.name_hint for value in values}
    is_fresh = False
    for value in values:
        name = listing.name(value).removeprefix("%").partition("#")[0]
        if value.name_hint != name:
            is_fresh, value.name_hint = True, _free_name(name, taken)
            taken.add(value.name_hint)
    return list_text(module) if is_fresh else listing


def _free_name(name: str, taken: Container[str | None]) -> str:
    """An unused name similar to the printed one that xDSL keeps: it strips a number after ``_``, which it takes for one
    that a printer has added.
    """
    stem, mark, number = name.rpartition("_")
    if name.isdigit():
        stem, mark, number = "v", "", name
    elif not (mark and number.isdigit()):
        if name not in taken:
            return name
        stem, number = name, "0"
    mark = "" if stem == "v" else "."
    return next(free for n in count(int(number)) if (free := f"{stem}{mark}{n}") not in taken)


class _Builder:
    """Collects the levels of a kernel.

    Operations of the first level are numbered. Those of later levels are identified by their source, which the lowering
    and the passes propagate; operations without one get no link.
    """

    def __init__(
        self,
        module: Operation,
        stages: Stages,
        grid: Sequence[int] | None,
        folded: bool,
    ):
        self.module, self.kernel, self.stages, self.grid = module, stages.kernel, stages, grid
        self.list = folded_listing if folded else list_text
        self.missing: dict[str, str] = {}
        self.levels: list[Level] = []
        self.threads: tuple[Line, ...] = ()
        self.analyses: dict[str, AnalysisRemarks] = {}
        self.numbers: dict[Operation, int] = {op: n for n, op in enumerate(module.walk())}
        sources = [source_of(op) for op in self.numbers]
        uses = Counter(map(id, sources))
        # Each operation has a source object of its own; a shared one does not identify an operation.
        self._by_source: dict[int, tuple[Source, int]] = {
            id(source): (source, number)
            for source, number in zip(sources, self.numbers.values(), strict=True)
            if source is not None and uses[id(source)] == 1
        }

    def build(self, passes: Sequence[TilePass], below: Container[str]) -> Explanation:
        self._add_sources()
        wanted = [key for key in LEVELS if key in below and key not in _OF_TILES]
        with ThreadPoolExecutor(1) as tools:
            # Textual levels need only nvgpu. NVIDIA's tools, which are slow external processes, run in parallel with
            # the other levels.
            for key in wanted:
                if key not in ("sass", "asm"):
                    self._add_below(key)
            if "sass" in wanted and any(level.key == "ptx" for level in self.levels):
                tools.submit(made_of, LEVELS["sass"], self.stages)
            changes, kernel, shown, line_of = self._add_tiles(passes)
            if "asm" in wanted:
                self.stages.number_of = self._number
                self._add_below("asm")
        if "sass" in wanted:
            self._add_below("sass")
        order = [*(level.key for level in self.levels if level.language == "python"), *_ORDER]
        titles = [kind.title for kind in LEVELS.values()]
        return Explanation(
            self.module,
            kernel,
            self.stages.target,
            tuple(sorted(self.levels, key=lambda level: order.index(level.key))),
            self.analyses,
            tuple(changes),
            shown,
            line_of,
            {title: self.missing[title] for title in titles if title in self.missing},
        )

    def _add_tiles(
        self, passes: Sequence[TilePass]
    ) -> tuple[list[Change], AnyKernel, str, Mapping[Operation, int]]:
        """Add the tile levels, if the kernel has any. Returns the changes of passes, the kernel, the key of its first
        IR level, and the lines there.
        """
        changes: list[Change] = []
        if self.stages.is_of_threads:
            return changes, thread_kernel(self.module, self.kernel), "nvgpu", {}
        kernel = kernel_of(self.module, self.kernel)
        changed, shown, line_of = (
            self._lower(self.module)
            if isinstance(self.module, ModuleOp)
            else self._take_nv_tileaa()
        )
        if passes:
            self._run(changed, passes, changes)
            self._add_nv_tileaa("final", "nv_tileaa, after the passes", changed)
        return changes, kernel, shown, line_of

    def _add_below(self, key: str) -> None:
        """Add a level below nv_tileaa, or record the reason why it is missing."""
        kind = LEVELS[key]
        if key in ("asm", "nv_tileas") and self.stages.is_of_threads:
            return
        try:
            made = made_of(kind, self.stages)
        except TileIRError as error:
            self.missing[kind.title] = error.diagnostics[0].message
            return
        about = self.stages.target if kind.is_of_target else "of this machine"
        counts = None
        if isinstance(made, str):
            lines = self._traced(key, made.expandtabs())
        else:
            own = self._own_text(made) if made is self.module else None
            listing = self.list(made)
            line_of: Mapping[Operation, int]
            line_of = {op: line + 1 for op, line in listing.line_of.items()}
            texts, counts = listing.text.splitlines(), Counter(op.name for op in made.walk())
            if own is not None:
                texts, line_of, about = own.text.splitlines(), _lines_in(made, own), own.name
            lines = self._linked(texts, line_of)
            if key == "nvgpu":
                lines = self.threads = self._with_links(lines, line_of)
                self.stages.lines = line_of
        if len(lines) > MAX_LINES:
            left_out = len(lines) - MAX_LINES
            lines = (*lines[:MAX_LINES], Line(f"... {left_out} more lines are left out"))
        self.levels.append(Level(key, kind.title, about, lines, 1, counts, kind.language))

    def _with_links(
        self, lines: Sequence[Line], line_of: Mapping[Operation, int]
    ) -> tuple[Line, ...]:
        """Assign link numbers also to lines without higher-level operations, because generated code refers to them."""
        first = len(self.numbers)
        begun = set(line_of.values())
        return tuple(
            Line(line.text, (first + n,)) if n in begun and not line.links else line
            for n, line in enumerate(lines, 1)
        )

    def _traced(self, key: str, text: str) -> tuple[Line, ...]:
        """The lines of a textual level, linked by its line table: to lines of ``nvgpu``, or to the numbers of
        operations.
        """
        if key == "asm":
            return tuple(
                Line(each, () if line is None else (line - 1,)) for each, line in READERS[key](text)
            )
        reader = READERS.get(key)
        if reader is None:
            return tuple(map(Line, text.splitlines()))
        return tuple(
            Line(each, self.threads[line - 1].links if line and line <= len(self.threads) else ())
            for each, line in reader(text)
        )

    def _own_text(self, module: Operation) -> SourceFile | None:
        """The text from which a module of ``gpu`` was parsed; None if it was not."""
        source = next((s for op in module.walk() if (s := source_of(op)) is not None), None)
        return source.file if isinstance(source, TextSource) else None

    def _lower(self, module: ModuleOp) -> tuple[builtin.ModuleOp, str, Mapping[Operation, int]]:
        """Add the level of ``cuda_tile`` and the one below. Returns the module for the passes, the key of the first IR
        level, and the lines of its operations.
        """
        line_of = self._add_cuda_tile(module)
        lowered = lower_to_tileaa(module, TileAAOptions(self.stages.dialect_target))
        for op, origin in lowered.origins.items():
            self.numbers[op] = self.numbers[origin]
        self._add_nv_tileaa("lowered", "nv_tileaa, as lowered", lowered.module)
        return lowered.module, "tile", line_of

    def _take_nv_tileaa(self) -> tuple[builtin.ModuleOp, str, Mapping[Operation, int]]:
        """Like ``_lower``, for a module that is already of ``nv_tileaa``."""
        copy = clone_with_locations(self.module, {})
        assert isinstance(copy, builtin.ModuleOp), "functions are in a builtin module"
        twins = list(zip(self.module.walk(), copy.walk(), strict=True))
        for op, twin in twins:
            self.numbers[twin] = self.numbers[op]
        listing = self._add_nv_tileaa("lowered", "nv_tileaa, as given", copy)
        # Terminators that the text omits have no line.
        lines = listing.line_of
        return copy, "lowered", {op: lines[twin] + 1 for op, twin in twins if twin in lines}

    def _add_sources(self) -> None:
        """Add a level for each readable source file that debug information names."""
        at: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        for op, number in self.numbers.items():
            if (position := source_position(op.location)) is not None:
                name, line, _ = position
                at[name][line].add(number)
        for name, links in at.items():
            file = read_source(name)
            # A final line end starts no further line.
            end = 0 if file is None else file.line_count - file.text.endswith("\n")
            lines = [line for line in links if 1 <= line <= end]
            if file is None or not lines:
                continue
            first, last = max(1, min(lines) - _AROUND), min(end, max(lines) + _AROUND)
            shown = tuple(
                Line(file.line_text(number), tuple(sorted(links.get(number, ()))))
                for number in range(first, last + 1)
            )
            number = len(self.levels) + 1
            key, title = (f"source{number}", f"source {number}") if number > 1 else ("source",) * 2
            self.levels.append(Level(key, title, name, shown, first, None, "python"))

    def _add_cuda_tile(self, module: ModuleOp) -> Mapping[Operation, int]:
        """Add the first level of IR, as the user wrote it if it was text; returns its lines."""
        counts = Counter(op.name for op in kernel_of(module, self.kernel).walk())
        if (file := _own_text(module)) is not None:
            line_of = _lines_in(module, file)
            texts, about = file.text.splitlines(), file.name
        else:
            listing = self.list(module)
            line_of = {op: line + 1 for op, line in listing.line_of.items()}
            texts, about = listing.text.splitlines(), "printed"
        lines = self._linked(texts, line_of)
        self.levels.append(Level("tile", "cuda_tile", about, lines, 1, counts))
        return line_of

    def _add_nv_tileaa(self, key: str, title: str, module: Operation) -> Listing:
        name_for_good(module)
        listing = self.list(module)
        line_of = {op: line + 1 for op, line in listing.line_of.items()}
        kernel = kernel_of(module, self.kernel)
        counts = Counter(op.name for op in kernel.walk())
        lines = self._linked(listing.text.splitlines(), line_of)
        self.levels.append(Level(key, title, self.stages.dialect_target, lines, 1, counts))
        self.analyses[key] = self._analyses(key, module, listing)
        return listing

    def _linked(self, texts: Sequence[str], line_of: Mapping[Operation, int]) -> tuple[Line, ...]:
        links: dict[int, set[int]] = defaultdict(set)
        for op, line in line_of.items():
            if (number := self._number(op)) is not None:
                links[line].add(number)
        return tuple(Line(text, tuple(sorted(links[n]))) for n, text in enumerate(texts, 1))

    def _number(self, op: Operation) -> int | None:
        """The operation of the first level to which another one corresponds; None if unknown."""
        if (known := self.numbers.get(op)) is not None:
            return known
        _, number = self._by_source.get(id(source_of(op)), (None, None))
        return number

    def _analyses(self, key: str, module: Operation, listing: Listing) -> AnalysisRemarks:
        found: dict[str, dict[int, list[str]]] = {name: defaultdict(list) for name in ANALYSES}
        peak, tokens, edges = "", "", 0
        for function in functions(module):
            facts = Facts(function, self.grid)
            for name, line, remark in remarks_of(facts, listing, ANALYSES):
                said = remark.replace(UNCOUNTED, "")
                if said not in found[name][line + 1]:
                    found[name][line + 1].append(said)
            if function.symbol == self.kernel:
                most, where = facts.lifetimes.peak()
                place = line_name(listing, where).replace(UNCOUNTED, "")
                peak = f"{most} bytes at {place}" if most else "no tiles"
                tokens = to_svg(facts.tokens, listing, page=f"{key}-")
                edges = len(list(facts.tokens.edges()))
        remarks = {
            name: {line: tuple(several) for line, several in sorted(by_line.items())}
            for name, by_line in found.items()
        }
        return AnalysisRemarks(remarks, peak, tokens, edges)

    def _run(
        self, module: builtin.ModuleOp, passes: Sequence[TilePass], changes: list[Change]
    ) -> None:
        """Run the passes, and record the changes of each."""
        before, text = self.list(module).text.splitlines(), list_text(module).text
        timings: list[PassTiming] = []

        def after(done: TilePass, changed: Operation) -> None:
            nonlocal before, text
            # Folding copies the module, so it is skipped if nothing has changed.
            now = name_for_good(changed).text
            lines = before if now == text else self.list(changed).text.splitlines()
            changes.append(compare(str(done), timings[-1].seconds, before, lines))
            before, text = lines, now

        run_pipeline(module, passes, after_pass=after, timings=timings)


def _own_text(module: ModuleOp) -> SourceFile | None:
    """The text from which a module was parsed; None if it was not, or if it has numbered values, whose numbers differ
    at other levels.
    """
    kernels = [op for op in module.walk() if isinstance(op, EntryOp)]
    source = source_of(kernels[0]) if kernels else None
    if not isinstance(source, TextSource):
        return None
    return None if _NUMBERED.search(source.file.text) else source.file


def _lines_in(module: Operation, file: SourceFile) -> Mapping[Operation, int]:
    """The lines where operations start in the text; an implicit module has none."""
    return {
        op: file.position(source.start)[0]
        for op in module.walk()
        if isinstance(source := source_of(op), TextSource) and source.file is file
    }
