"""Operations of ``nvvm`` that ``gpu`` and ``nvgpu`` have nothing for: fences between proxies, groups of bulk
copies, named barriers, clusters, the trade of registers between warps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import auto
from typing import ClassVar

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

from tilewright.dialects.declare import Report, attr, enum_property, examples, int_property, operand
from tilewright.dialects.narrowing import is_int
from tilewright.dialects.syntax.directives import (
    parse_type_into,
)
from tilewright.dialects.syntax.engine import Directive, ParseState, values_of
from tilewright.dialects.syntax.tokens import consume, fail, token_text
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base import constraints as K
from tilewright.dialects.upstream.base.directives import (
    ATTRIBUTES,
    Choice,
    Number,
    syntax,
)
from tilewright.dialects.upstream.base.enums import AngledEnumAttr, BareEnumAttr
from tilewright.dialects.upstream.base.operations import SEGMENTS, UpstreamOp, upstream_op
from tilewright.dialects.upstream.llvm.syntax import POINTER


class ProxyKind(StrEnum):
    ALIAS = auto()
    ASYNC = auto()
    ASYNC_GLOBAL = "async.global"
    ASYNC_SHARED = "async.shared"


class SharedSpace(StrEnum):
    CTA = auto()
    CLUSTER = auto()


class LoadCacheModifier(StrEnum):
    CA = auto()
    CG = auto()
    CS = auto()
    LU = auto()
    CV = auto()


class SetMaxRegisterAction(StrEnum):
    DECREASE = auto()
    INCREASE = auto()


@irdl_attr_definition
class ProxyKindAttr(AngledEnumAttr, EnumAttribute[ProxyKind]):
    name = "nvvm.proxy_kind"


@irdl_attr_definition
class SharedSpaceAttr(AngledEnumAttr, EnumAttribute[SharedSpace]):
    name = "nvvm.shared_space"


@irdl_attr_definition
class LoadCacheModifierAttr(BareEnumAttr, EnumAttribute[LoadCacheModifier]):
    name = "nvvm.load_cache_modifier"


@irdl_attr_definition
class SetMaxRegisterActionAttr(BareEnumAttr, EnumAttribute[SetMaxRegisterAction]):
    name = "nvvm.action"


@irdl_attr_definition
class TargetAttr(ParametrizedAttribute):
    """What a module is compiled for: ``#nvvm.target<chip = "sm_90a", ...>``."""

    name = "nvvm.target"
    options: DictionaryAttr

    NAMES: ClassVar = ("O", "triple", "chip", "features", "flags", "link")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        found: dict[str, Attribute] = {}

        def option() -> None:
            name = token_text(parser)
            if name not in cls.NAMES or name in found:
                fail(parser, f"expected one of {', '.join(cls.NAMES)}, once each, got '{name}'")
            consume(parser)
            parser.parse_punctuation("=")
            found[name] = parser.parse_attribute()

        if token_text(parser) == "<":
            parser.parse_comma_separated_list(parser.Delimiter.ANGLE, option)
        return [DictionaryAttr(found)]

    def print_parameters(self, printer: Printer) -> None:
        if not self.options.data:
            return
        with printer.in_angle_brackets():
            printer.print_list(
                self.options.data.items(), lambda item: _print_option(printer, *item)
            )


def _print_option(printer: Printer, name: str, value: Attribute) -> None:
    printer.print_string(f"{name} = ")
    text = str(value)
    printer.print_string(text.removesuffix(" : i64"))


_WARPS = "a thread of the warp does not take part"


@dataclass(frozen=True, slots=True)
class MoreTypes(Directive):
    """``, T`` for an optional operand that is there."""

    name: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        if state.operands.get(self.name):
            parser.parse_punctuation(",")
            parse_type_into(parser, state, self.name)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        for value in values_of(op, self.name):
            printer.print_string(", ")
            printer.print_attribute(value.type)

    def grammar(self) -> str:
        return "[`,` T]"


@upstream_op("nvvm", "barrier0")
class Barrier0Op(UpstreamOp):
    """Waits for all threads of the block, at barrier 0."""

    SYNTAX: ClassVar = (ATTRIBUTES,)
    EXAMPLES: ClassVar = examples("nvvm.barrier0")


@upstream_op("nvvm", "barrier")
class BarrierOp(UpstreamOp):
    """Waits at one of 16 barriers of the block, 0 where none is given, for so many threads.

    All threads of the block where no number is given.
    """

    barrierId = opt_operand_def(K.I32)
    numberOfThreads = opt_operand_def(K.I32)

    irdl_options = (SEGMENTS,)
    SYNTAX: ClassVar = syntax(
        "(id = $barrierId)? (number_of_threads = $numberOfThreads)? attr-dict"
    )
    UNDEFINED: ClassVar = ("the number of threads is not a multiple of 32",)
    EXAMPLES: ClassVar = examples(
        """
        %id = arith.constant 1 : i32
        %threads = arith.constant 256 : i32
        nvvm.barrier id = %id number_of_threads = %threads
        """
    )


@upstream_op("nvvm", "barrier.arrive")
class BarrierArriveOp(UpstreamOp):
    """Arrives at a barrier of the block without waiting."""

    barrierId = opt_operand_def(K.I32)
    numberOfThreads = operand_def(K.I32)

    SYNTAX: ClassVar = syntax(
        "(id = $barrierId)? (number_of_threads = $numberOfThreads)? attr-dict"
    )
    UNDEFINED: ClassVar = ("the number of threads is not a multiple of 32",)
    EXAMPLES: ClassVar = examples(
        """
        %id = arith.constant 1 : i32
        %threads = arith.constant 256 : i32
        nvvm.barrier.arrive id = %id number_of_threads = %threads
        """
    )


@upstream_op("nvvm", "bar.warp.sync")
class SyncWarpOp(UpstreamOp):
    """Waits for the lanes of the warp that are in ``mask``."""

    mask = operand_def(K.I32)

    SYNTAX: ClassVar = syntax("$mask attr-dict : type($mask)")
    EXAMPLES: ClassVar = examples(
        """
        %mask = arith.constant -1 : i32
        nvvm.bar.warp.sync %mask : i32
        """
    )


@upstream_op("nvvm", "cp.async.shared.global")
class CpAsyncSharedGlobalOp(UpstreamOp):
    """Starts to copy ``size`` bytes, 4, 8 or 16, from global to shared memory; with ``cpSize`` only that
    many are read, and zeros stand for the others.

    The copy belongs to the next group that the thread makes, as that of `nvgpu.device_async_copy`.
    """

    dst = operand_def(POINTER)
    src = operand_def(POINTER)
    cpSize = opt_operand_def(K.I32)
    size = prop_def(K.INT32)
    modifier = prop_def(K.Kind("a load_cache_modifier", LoadCacheModifierAttr))

    HIDDEN: ClassVar = frozenset({"size", "modifier"})
    SYNTAX: ClassVar = syntax(
        "$dst, $src,",
        Number("size", width=32),
        ", cache =",
        Choice("modifier", LoadCacheModifierAttr),
        "(, $cpSize)? attr-dict : type($dst), type($src)",
        MoreTypes("cpSize"),
    )
    UNDEFINED: ClassVar = (
        "an address is not a multiple of the size",
        "the destination is read or written before the copy has been waited for",
        "the source is written while the copy runs",
    )
    EXAMPLES: ClassVar = examples(
        """
        %d = llvm.mlir.zero : !llvm.ptr<3>
        %s = llvm.mlir.zero : !llvm.ptr<1>
        %some = arith.constant 8 : i32
        nvvm.cp.async.shared.global %d, %s, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
        nvvm.cp.async.shared.global %d, %s, 16, cache = cg, %some : !llvm.ptr<3>, !llvm.ptr<1>, i32
        """
    )

    def check(self, report: Report) -> None:
        size = int_property(self, "size")
        if size not in (4, 8, 16):
            report.error(
                codes.COPY_SIZE, f"expected to copy 4, 8 or 16 bytes, got {size}", attr("size")
            )
        word = enum_property(self, "modifier")
        if word not in ("ca", "cg") or (word == "cg" and size != 16):
            report.error(
                codes.COPY_SIZE,
                f"expected cache = ca, or cg for 16 bytes, got {word} for {size}",
                attr("modifier"),
            )
        for name, value, space in (("dst", self.dst, 3), ("src", self.src, 1)):
            found = getattr(value.type, "addr_space", None)
            if not is_int(found) or found.data != space:
                report.error(
                    codes.MEMORY_SPACE,
                    f"expected '{name}' to be a pointer of space {space}, got "
                    f"'{format_type(value.type)}'",
                    operand(name),
                )


@upstream_op("nvvm", "elect.sync")
class ElectSyncOp(UpstreamOp):
    """Whether the thread is the one that the warp elects."""

    pred = result_def(K.I1)

    SYNTAX: ClassVar = syntax("attr-dict -> type($pred)")
    UNDEFINED: ClassVar = (_WARPS,)
    EXAMPLES: ClassVar = examples("%elected = nvvm.elect.sync -> i1")


@upstream_op("nvvm", "fence.proxy")
class FenceProxyOp(UpstreamOp):
    """Orders accesses of one proxy before those of another that come after."""

    kind = prop_def(K.Kind("a proxy_kind", ProxyKindAttr))
    space = opt_prop_def(K.Kind("a shared_space", SharedSpaceAttr))

    SYNTAX: ClassVar = (ATTRIBUTES,)
    EXAMPLES: ClassVar = examples(
        "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}",
        "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}",
    )

    def check(self, report: Report) -> None:
        kind = self.properties["kind"]
        assert isinstance(kind, ProxyKindAttr)
        if (kind.data is ProxyKind.ASYNC_SHARED) != (self.space is not None):
            report.error(
                codes.MEMORY_SPACE,
                "expected 'space' with the proxy async.shared, and with no other",
                attr("kind"),
            )


@upstream_op("nvvm", "fence.mbarrier.init")
class FenceMbarrierInitOp(UpstreamOp):
    """Makes initialized barriers visible to the other blocks of the cluster."""

    SYNTAX: ClassVar = (ATTRIBUTES,)
    EXAMPLES: ClassVar = examples("nvvm.fence.mbarrier.init")


@upstream_op("nvvm", "cp.async.bulk.commit.group")
class CpAsyncBulkCommitGroupOp(UpstreamOp):
    """A group of all bulk stores that the thread has started and that are in no group yet."""

    SYNTAX: ClassVar = (ATTRIBUTES,)
    EXAMPLES: ClassVar = examples("nvvm.cp.async.bulk.commit.group")


class GroupOp(UpstreamOp):
    """Waits until at most ``group`` groups, the youngest, are unfinished."""

    group = prop_def(K.INT32)

    HIDDEN: ClassVar = frozenset({"group"})
    SYNTAX: ClassVar = (Number("group", width=32), ATTRIBUTES)

    def check(self, report: Report) -> None:
        if int_property(self, "group") < 0:
            report.error(
                codes.GROUP_COUNT,
                f"expected a number of groups, got {int_property(self, 'group')}",
                attr("group"),
            )


@upstream_op("nvvm", "cp.async.bulk.wait_group")
class CpAsyncBulkWaitGroupOp(GroupOp):
    """Waits until at most ``group`` groups of bulk stores, the youngest, are unfinished.

    With ``read``, until no other has still to read its source.
    """

    read = opt_prop_def(K.FLAG)

    EXAMPLES: ClassVar = examples(
        "nvvm.cp.async.bulk.wait_group 0", "nvvm.cp.async.bulk.wait_group 0 {read}"
    )


@upstream_op("nvvm", "wgmma.fence.aligned")
class WgmmaFenceAlignedOp(UpstreamOp):
    """Orders accesses of registers before the products of the warpgroup that come after."""

    SYNTAX: ClassVar = (ATTRIBUTES,)
    UNDEFINED: ClassVar = (_WARPS,)
    EXAMPLES: ClassVar = examples("nvvm.wgmma.fence.aligned")


@upstream_op("nvvm", "wgmma.commit.group.sync.aligned")
class WgmmaGroupSyncAlignedOp(UpstreamOp):
    """A group of all products that the warpgroup has started and that are in no group yet."""

    SYNTAX: ClassVar = (ATTRIBUTES,)
    UNDEFINED: ClassVar = (_WARPS,)
    EXAMPLES: ClassVar = examples("nvvm.wgmma.commit.group.sync.aligned")


@upstream_op("nvvm", "wgmma.wait.group.sync.aligned")
class WgmmaWaitGroupSyncOp(GroupOp):
    """Waits until at most ``group`` groups of products, the youngest, are unfinished."""

    UNDEFINED: ClassVar = (_WARPS,)
    EXAMPLES: ClassVar = examples("nvvm.wgmma.wait.group.sync.aligned 0")


@upstream_op("nvvm", "cluster.arrive")
class ClusterArriveOp(UpstreamOp):
    """Arrives at the barrier of the cluster; accesses of memory before it become visible."""

    SYNTAX: ClassVar = (ATTRIBUTES,)
    EXAMPLES: ClassVar = examples("nvvm.cluster.arrive")


@upstream_op("nvvm", "cluster.arrive.relaxed")
class ClusterArriveRelaxedOp(UpstreamOp):
    """Arrives at the barrier of the cluster."""

    SYNTAX: ClassVar = (ATTRIBUTES,)
    EXAMPLES: ClassVar = examples("nvvm.cluster.arrive.relaxed")


@upstream_op("nvvm", "cluster.wait")
class ClusterWaitOp(UpstreamOp):
    """Waits until all threads of the cluster have arrived."""

    SYNTAX: ClassVar = (ATTRIBUTES,)
    EXAMPLES: ClassVar = examples("nvvm.cluster.wait")


@upstream_op("nvvm", "setmaxregister")
class SetMaxRegisterOp(UpstreamOp):
    """Lets the warp have so many registers for each thread: gives others back, or waits for them."""

    regCount = prop_def(K.INT32)
    action = prop_def(K.Kind("an action", SetMaxRegisterActionAttr))

    HIDDEN: ClassVar = frozenset({"regCount", "action"})
    SYNTAX: ClassVar = (
        Choice("action", SetMaxRegisterActionAttr),
        Number("regCount", width=32),
        ATTRIBUTES,
    )
    UNDEFINED: ClassVar = ("not all warps of the warpgroup do it",)
    EXAMPLES: ClassVar = examples("nvvm.setmaxregister increase 240")

    def check(self, report: Report) -> None:
        count = int_property(self, "regCount")
        if count % 8 or not 24 <= count <= 256:
            report.error(
                codes.REGISTER_COUNT,
                f"expected a multiple of 8 from 24 to 256 registers, got {count}",
                attr("regCount"),
            )


ATTRIBUTE_TYPES = (
    ProxyKindAttr,
    SharedSpaceAttr,
    LoadCacheModifierAttr,
    SetMaxRegisterActionAttr,
    TargetAttr,
)
