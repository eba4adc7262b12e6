"""The named passes and pipelines, and the driver that runs them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint
from time import perf_counter
from typing import NamedTuple, cast

from xdsl.dialects import builtin
from xdsl.ir import Operation
from xdsl.passes import get_pass_option_infos
from xdsl.utils.arg_spec import ArgSpec

from tilewright.diagnostics import (
    Diagnostic,
    Note,
    Severity,
    SourceLocation,
    TileIRError,
    define_code,
)
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.garbage import rare_collections
from tilewright.nesting import deep_recursion
from tilewright.passes.base import NV_TILEAA, Level, TilePass
from tilewright.passes.canonicalize import TRACE, Canonicalize, Rewrite
from tilewright.passes.cse import CommonSubexpressionElimination
from tilewright.passes.dce import DeadCodeElimination
from tilewright.passes.debug_scopes import SynthesizeDebugInfoScopes
from tilewright.passes.fuse_fma import FuseFma
from tilewright.passes.licm import LoopInvariantCodeMotion
from tilewright.passes.loading import (
    PASS_FAILED,
    PASSES_NOT_LOADED,
    announced_passes,
    load_announced,
    location_of_failure,
)
from tilewright.passes.loop_split import LoopSplit
from tilewright.passes.pipeline_text import ElementText, OptionText, parse_elements
from tilewright.passes.tileaa.canonicalize import TileAACanonicalize
from tilewright.passes.tileaa.choose_magnitudes import ChooseMagnitudes
from tilewright.passes.tileaa.cleanup import (
    MergeEqual,
    TileAACommonSubexpressionElimination,
    TileAADeadCodeElimination,
    TileAALoopInvariantCodeMotion,
)
from tilewright.passes.tileaa.constant_powers import ConstantPowers
from tilewright.passes.tileaa.forward_memory import ForwardMemory
from tilewright.passes.tileaa.halve_products import HalveProducts
from tilewright.passes.tileaa.hoist_masks import HoistMasks
from tilewright.passes.tileaa.longer_rows import LongerRows
from tilewright.passes.tileaa.mark_in_bounds import MarkInBounds
from tilewright.passes.tileaa.merge_reductions import MergeReductions
from tilewright.passes.tileaa.narrow_comparisons import NarrowComparisons
from tilewright.passes.tileaa.narrow_integers import NarrowIntegers
from tilewright.passes.tileaa.one_axis import OneAxis
from tilewright.passes.tileaa.order_guard import OrderGuard
from tilewright.passes.tileaa.pick_elements import PickElements
from tilewright.passes.tileaa.relax import RelaxTokens
from tilewright.passes.tileaa.single_reductions import SingleReductions
from tilewright.passes.tileaa.sink_stores import SinkStores
from tilewright.passes.tileaa.split_carried import SplitCarried
from tilewright.passes.tileaa.split_divisions import SplitDivisions
from tilewright.passes.tileaa.unroll_loops import UnrollLoops
from tilewright.passes.tileaa.weaken_atomics import WeakenAtomics
from tilewright.passes.tileas.allocate import Allocate
from tilewright.passes.tileas.assign_layouts import AssignLayouts
from tilewright.passes.tileas.avoid_conflicts import AvoidConflicts
from tilewright.passes.tileas.choose_block_order import OrderBlocks
from tilewright.passes.tileas.direct_copies import DirectCopies
from tilewright.passes.tileas.expand import Expand
from tilewright.passes.tileas.insert_barriers import InsertBarriers
from tilewright.passes.tileas.limit_residency import LimitResidency
from tilewright.passes.tileas.pipeline import Pipeline
from tilewright.passes.tileas.pipeline_products import PipelineProducts
from tilewright.passes.tileas.remove_conversions import RemoveConversions
from tilewright.passes.tileas.schedule import Schedule
from tilewright.passes.tileas.specialize import Specialize
from tilewright.passes.tileas.split_depths import SplitDepths
from tilewright.passes.tileas.split_tiles import SplitTiles
from tilewright.passes.tileas.tma import TmaPipelines
from tilewright.passes.tileas.tma_stores import TmaStores

UNKNOWN_PASS = define_code(
    "unknown-pass",
    "No pass or pipeline has this name.",
    "`docs/passes.md` lists the passes and the pipelines O0 to O3.",
)
BAD_PASS_OPTION = define_code(
    "bad-pass-option",
    "A pass does not have this option, or its value is invalid.",
    "Options follow the name of a pass in braces: `loop-split{split-threshold=2}`.",
)
PASS_BROKE_MODULE = define_code(
    "pass-broke-module",
    "A pass produced an invalid module or dropped an ordering of effects: a bug in the pass.",
    "If the pass is Tilewright's, please report it with the program and the pipeline. The module "
    "was valid before the pass. For nv_tileaa, the check includes that tokens still order the "
    "memory effects as the program requires.",
)


class PassTable(Mapping[str, type[TilePass]]):
    """Passes by name.

    Passes of higher layers are given as module and class, and are imported when first looked up; so
    are those of installed packages (``loading.ENTRY_POINTS``), which come last. ``add`` registers
    further passes.
    """

    def __init__(self, passes: Iterable[type[TilePass]], elsewhere: Mapping[str, str]):
        self._loaded = {cls.name: cls for cls in passes}
        self._elsewhere = dict(elsewhere)
        self._own = frozenset((*self._loaded, *self._elsewhere))
        self._announced: dict[str, EntryPoint] | None = None

    def add(self, cls: type[TilePass]) -> None:
        """Register a pass, replacing one of the same name that was added before.

        Raises ``TileIRError`` (``passes-not-loaded``) if Tilewright itself has a pass or pipeline of
        that name.
        """
        if cls.name in self._own or cls.name in PIPELINES:
            message = (
                f"Tilewright already has a pass or pipeline named '{cls.name}'; choose another name"
            )
            raise TileIRError.single(PASSES_NOT_LOADED, message)
        self._loaded[cls.name] = cls

    def is_own(self, name: str) -> bool:
        """Whether a pass is part of Tilewright, not external."""
        return name in self._own

    def _others(self) -> dict[str, EntryPoint]:
        if self._announced is None:
            found = announced_passes()
            self._announced = {n: p for n, p in found.items() if n not in self._own}
        return self._announced

    def __getitem__(self, name: str) -> type[TilePass]:
        if name not in self._loaded:
            if name in self._elsewhere:
                module, _, cls = self._elsewhere[name].partition(":")
                self._loaded[name] = getattr(import_module(module), cls)
            elif (point := self._others().get(name)) is not None:
                self._loaded[name] = load_announced(point)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._loaded, *self._elsewhere, *self._others())))

    def __len__(self) -> int:
        return len(self._loaded.keys() | self._elsewhere.keys() | self._others().keys())

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self._elsewhere or name in self._others()


#: Every pass, by name.
PASSES = PassTable(
    (
        Canonicalize,
        CommonSubexpressionElimination,
        DeadCodeElimination,
        LoopInvariantCodeMotion,
        FuseFma,
        LoopSplit,
        SynthesizeDebugInfoScopes,
        TileAACanonicalize,
        TileAACommonSubexpressionElimination,
        MergeEqual,
        TileAADeadCodeElimination,
        TileAALoopInvariantCodeMotion,
        ForwardMemory,
        RelaxTokens,
        WeakenAtomics,
        ConstantPowers,
        ChooseMagnitudes,
        HalveProducts,
        LongerRows,
        NarrowComparisons,
        NarrowIntegers,
        OneAxis,
        PickElements,
        SingleReductions,
        SplitCarried,
        SplitDivisions,
        UnrollLoops,
        MergeReductions,
        MarkInBounds,
        HoistMasks,
        SinkStores,
        Allocate,
        AssignLayouts,
        AvoidConflicts,
        InsertBarriers,
        LimitResidency,
        OrderBlocks,
        Pipeline,
        DirectCopies,
        Expand,
        RemoveConversions,
        Schedule,
        Specialize,
        SplitTiles,
        SplitDepths,
        PipelineProducts,
        TmaPipelines,
        TmaStores,
    ),
    {
        "convert-tileas-to-nvgpu": "tilewright.lowering.scheduled.lower_pass:ConvertTileasToNvgpu",
        "lower-cuda-tile-to-tileaa": "tilewright.lowering.tileaa.lower_pass:LowerCudaTileToTileAA",
        "lower-tileaa-to-nvgpu": "tilewright.lowering.nvgpu.lower_pass:LowerTileAAToNvgpu",
    },
)


def passes_within(level: Level) -> list[str]:
    """Return the names of Tilewright's passes whose input and output are of the given level, in registration order."""
    own = ((name, PASSES[name]) for name in PASSES if PASSES.is_own(name))
    return [name for name, cls in own if cls.LEVEL is level and cls.RESULT is None]


#: Every pipeline, by name, as passes in the order in which they run. O3 is the usual choice. None
#: contains fuse-fma, which changes results: ask for `fuse-fma,O3`.
PIPELINES: dict[str, tuple[str, ...]] = {
    "O0": (),
    "O1": ("canonicalize", "cse"),
    "O2": ("canonicalize", "cse", "licm"),
    "O3": ("canonicalize", "cse", "licm", "loop-split", "canonicalize"),
    "tileaa": (
        "tileaa-canonicalize",
        "tileaa-cse",
        "relax-tokens",
        "tileaa-licm",
        "forward-memory",
        "tileaa-canonicalize",
        "tileaa-dce",
    ),
    "cpu": (
        "unroll-loops",
        "merge-equal",
        "hoist-masks",
        "sink-stores",
        "weaken-atomics",
        "split-carried",
        "constant-powers",
        "narrow-comparisons",
        "halve-products",
        "narrow-integers",
        "pick-elements",
        "single-reductions",
        "longer-rows",
        "choose-magnitudes",
        "one-axis",
        "split-divisions",
        "merge-reductions",
        "mark-in-bounds",
        "merge-equal",
    ),
    "tileas": (
        "tileas-order-blocks",
        "tileas-split-tiles",
        "tileas-split-depths",
        "tileas-limit-residency",
        "tileas-assign-layouts",
        "tileas-avoid-conflicts",
        "tileas-remove-conversions",
        "tileas-tma{target=sm_80}",
        "tileas-pipeline",
        "tileas-expand",
        "tileas-direct-copies",
        "tileas-schedule",
        "tileas-tma-stores",
        "tileas-specialize{target=sm_80}",
        "tileas-ahead",
        "tileas-allocate",
        "tileas-insert-barriers",
    ),
}

AnyModule = ModuleOp | builtin.ModuleOp


class PassTiming(NamedTuple):
    """The duration of one pass, without hooks and verification."""

    name: str
    seconds: float


def parse_pipeline(text: str) -> list[TilePass]:
    """Return the passes named by a text such as ``fuse-fma,O2,loop-split{split-threshold=2}``.

    Raises ``TileIRError`` with every error in the text: ``bad-pipeline``, ``unknown-pass``,
    ``bad-pass-option``.
    """
    passes: list[TilePass] = []
    problems: list[Diagnostic] = []
    for element in parse_elements(text):
        try:
            passes += _passes_of(element)
        except TileIRError as error:
            problems += error.diagnostics
    if problems:
        raise TileIRError(problems)
    return passes


def _passes_of(element: ElementText) -> list[TilePass]:
    members = PIPELINES.get(element.name)
    if members is not None:
        return _members_of(element, [parse_elements(member)[0] for member in members])
    cls = PASSES.get(element.name)
    if cls is None:
        raise TileIRError.single(
            UNKNOWN_PASS,
            f"there is no pass or pipeline '{element.name}'",
            element.location,
            help=_suggestion(element.name, [*PASSES, *PIPELINES]),
        )
    return [_configured(cls, element)]


def _members_of(element: ElementText, members: Sequence[ElementText]) -> list[TilePass]:
    """Return the passes of a pipeline. An option applies to each pass that has it; at least one
    must."""
    taken: set[OptionText] = set()
    passes: list[TilePass] = []
    for member in members:
        cls = PASSES[member.name]
        known = {field.name.replace("_", "-") for field in dataclasses.fields(cls)}
        own = [option for option in element.options if option.key.replace("_", "-") in known]
        keys = {option.key for option in own}
        kept = [option for option in member.options if option.key not in keys]
        passes.append(_configured(cls, ElementText(member.name, (*kept, *own), element.location)))
        taken.update(own)
    for option in element.options:
        if option not in taken:
            raise TileIRError.single(
                BAD_PASS_OPTION,
                f"no pass of the pipeline '{element.name}' has an option '{option.key}'",
                option.location,
                help=f"its passes: {','.join(member.name for member in members)}",
            )
    return passes


def _suggestion(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}"


def _configured(cls: type[TilePass], element: ElementText) -> TilePass:
    known = {field.name.replace("_", "-"): field for field in dataclasses.fields(cls)}
    problems: list[Diagnostic] = []
    given: dict[str, OptionText] = {}
    for option in element.options:
        key = option.key.replace("_", "-")
        if key not in known:
            message = f"the pass '{cls.name}' has no option '{option.key}'"
            help = _suggestion(key, list(known)) if known else "it has no options"
            problems.append(_bad_option(message, option.location, help))
        elif key in given:
            message = f"the option '{option.key}' of '{cls.name}' is given twice"
            problems.append(_bad_option(message, option.location))
        given[key] = option
    if problems:
        raise TileIRError(problems)
    try:
        return cls.from_spec(ArgSpec(cls.name, {k: o.values for k, o in given.items()}))
    except TileIRError as error:
        # A pass rejects a value without knowing its location in the text.
        location = next(iter(given.values())).location
        raise TileIRError(
            [dataclasses.replace(d, location=d.location or location) for d in error.diagnostics]
        ) from error
    except ValueError as error:
        wanted = ", ".join(
            f"{info.name.replace('_', '-')}: {info.expected_type}"
            for info in get_pass_option_infos(cls)
        )
        raise TileIRError.single(
            BAD_PASS_OPTION,
            f"invalid options of '{cls.name}': {error}",
            next(iter(given.values())).location,
            help=f"expected {wanted}",
        ) from error


def _bad_option(message: str, location: SourceLocation, help: str = "") -> Diagnostic:
    return Diagnostic(Severity.ERROR, BAD_PASS_OPTION, message, location, help=help)


@rare_collections
@deep_recursion()
def run_pipeline(
    module: AnyModule,
    pipeline: str | Sequence[TilePass],
    *,
    verify_each: bool = False,
    allow_unregistered: bool = False,
    before_pass: Callable[[TilePass, AnyModule], None] | None = None,
    after_pass: Callable[[TilePass, AnyModule], bool | None] | None = None,
    timings: list[PassTiming] | None = None,
    rewrites: list[Rewrite] | None = None,
) -> AnyModule:
    """Run passes on a verified module in place, and return the module that holds the result.

    That is ``module`` itself, unless it is a ``cuda_tile.module`` that was lowered to another level.

    ``before_pass`` and ``after_pass`` are called with the pass and the module; the pipeline stops if ``after_pass``
    returns True. ``timings`` receives an entry for each pass that ran; ``rewrites`` one, with the rule's name, for
    each rule that canonicalize, tileaa-canonicalize or fuse-fma applies. ``verify_each`` verifies the module before
    the first and after each pass, and checks that passes on ``nv_tileaa`` preserve the order of memory effects, in
    quadratic time. A pass that breaks something is reported as ``pass-broke-module`` with the errors found.
    ``allow_unregistered`` accepts operations of unknown dialects.

    Raises ``TileIRError``: as ``parse_pipeline`` for text that is no pipeline, ``no-tile-ir`` or ``no-nv-tileaa`` if
    a pass finds no IR of its level, ``pass-failed`` for an exception in a pass of others, and what a lowering
    refuses.
    """
    passes = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    if verify_each:
        _verify(module, allow_unregistered)
    for each in passes:
        if before_pass is not None:
            before_pass(each, module)
        guard = _guard(each, module) if verify_each else None
        start = perf_counter()
        traced = TRACE.set(rewrites)
        try:
            module = cast(AnyModule, _apply(each, module))
        finally:
            TRACE.reset(traced)
        if timings is not None:
            timings.append(PassTiming(each.name, perf_counter() - start))
        if verify_each:
            _verify_after(each, module, allow_unregistered, guard)
        if after_pass is not None and after_pass(each, module):
            break
    return module


def _apply(each: TilePass, module: AnyModule) -> Operation:
    """Run a pass. An exception raised in an external pass is reported as an error of that pass."""
    if PASSES.is_own(each.name) or type(each).__module__.startswith("tilewright."):
        return each.apply_to(module)
    try:
        return each.apply_to(module)
    except TileIRError:
        raise
    except Exception as error:
        place = location_of_failure(error, type(each))
        message = f"the pass '{each}' raised {type(error).__name__}: {error}"
        raise TileIRError.single(PASS_FAILED, message, place) from error


def _verify(module: AnyModule, allow_unregistered: bool) -> None:
    # The verifier is a large import, and most runs do not need it.
    from tilewright.analysis.verifier import verify

    verify(module, allow_unregistered=allow_unregistered)


def _guard(each: TilePass, module: AnyModule) -> OrderGuard | None:
    """Return a guard of the order of effects for passes that stay on ``nv_tileaa``."""
    if each.LEVEL is not NV_TILEAA or each.RESULT is not None:
        return None
    if each.name.startswith("tileas-"):
        # Asynchronous copies replace loads, so the guard cannot match the effects before and after.
        return None
    return OrderGuard.watch(module)


def _verify_after(
    done: TilePass, module: AnyModule, allow_unregistered: bool, guard: OrderGuard | None
) -> None:
    what, found = "does not verify", _errors(module, allow_unregistered)
    if guard is not None:
        if not found:
            what, found = "lacks an ordering of memory effects", guard.problems()
        guard.release()
    if found:
        owner = "Tilewright" if type(done).__module__.startswith("tilewright.") else "the pass"
        raise TileIRError.single(
            PASS_BROKE_MODULE,
            f"after the pass '{done}' the module {what}; this is a bug in {owner}",
            found[0].location,
            notes=tuple(Note(f"[{d.code}] {d.message}", d.location) for d in found),
        )


def _errors(module: AnyModule, allow_unregistered: bool) -> list[Diagnostic]:
    try:
        _verify(module, allow_unregistered)
    except TileIRError as error:
        return [d for d in error.diagnostics if d.is_error]
    return []
