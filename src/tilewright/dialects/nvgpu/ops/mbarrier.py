"""Barriers in shared memory, on which threads and asynchronous copies meet."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import operand_def, opt_operand_def, result_def

from tilewright.dialects.declare import examples
from tilewright.dialects.nvgpu.base import NvgpuOp, nvgpu_op
from tilewright.dialects.nvgpu.constraints import MBARRIER_GROUP, MBARRIER_TOKEN
from tilewright.dialects.nvgpu.signature import syntax
from tilewright.dialects.upstream.base.constraints import ADDRESS, I1, INDEX

GROUP = "mbarrier"

_UNINITIALIZED = "the barrier has not been initialized"
_OUTSIDE = "mbarId is not less than the number of barriers"


@nvgpu_op("mbarrier.create", group=GROUP)
class MBarrierCreateOp(NvgpuOp):
    """Reserves shared memory for the barriers, 8 bytes each; they are not initialized."""

    barriers = result_def(MBARRIER_GROUP)

    SYNTAX: ClassVar = syntax("attr-dict -> barrier-type")
    EXAMPLES: ClassVar = examples(
        """
        %new = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
        """
    )


@nvgpu_op("mbarrier.get", group=GROUP)
class MBarrierGetOp(NvgpuOp):
    """The address of a barrier in shared memory, in bytes."""

    barriers = operand_def(MBARRIER_GROUP)
    mbarId = operand_def(INDEX)
    mbarrierPointer = result_def(ADDRESS)

    SYNTAX: ClassVar = syntax(
        "$barriers[$mbarId] attr-dict : barrier-type -> type($mbarrierPointer)"
    )
    UNDEFINED: ClassVar = (_OUTSIDE,)
    EXAMPLES: ClassVar = examples("%address = nvgpu.mbarrier.get %bars[%i] : !bars -> i64")


@nvgpu_op("mbarrier.init", group=GROUP)
class MBarrierInitOp(NvgpuOp):
    """Begins phase 0, which ends after ``count`` arrivals and as many bytes as are expected.

    Nothing happens where ``predicate`` is there and false. One thread does this, and the others
    wait for it at another barrier.
    """

    barriers = operand_def(MBARRIER_GROUP)
    count = operand_def(INDEX)
    mbarId = operand_def(INDEX)
    predicate = opt_operand_def(I1)

    SYNTAX: ClassVar = syntax(
        "$barriers[$mbarId], $count (, predicate = $predicate)? attr-dict : barrier-type"
    )
    UNDEFINED: ClassVar = (_OUTSIDE, "count is not from 1 to 2**20 - 1", "the barrier is in use")
    EXAMPLES: ClassVar = examples(
        "nvgpu.mbarrier.init %bars[%i], %n : !bars",
        "nvgpu.mbarrier.init %bars[%i], %n, predicate = %p : !bars",
    )


@nvgpu_op("mbarrier.arrive", group=GROUP)
class MBarrierArriveOp(NvgpuOp):
    """One arrival; gives the phase that it belongs to."""

    barriers = operand_def(MBARRIER_GROUP)
    mbarId = operand_def(INDEX)
    token = result_def(MBARRIER_TOKEN)

    SYNTAX: ClassVar = syntax("$barriers[$mbarId] attr-dict : barrier-type -> type($token)")
    UNDEFINED: ClassVar = (_UNINITIALIZED, _OUTSIDE)
    EXAMPLES: ClassVar = examples(
        "%token = nvgpu.mbarrier.arrive %bars[%i] : !bars -> !nvgpu.mbarrier.token"
    )


@nvgpu_op("mbarrier.arrive.nocomplete", group=GROUP)
class MBarrierArriveNoCompleteOp(NvgpuOp):
    """``count`` arrivals that do not end the phase; gives the phase that they belong to."""

    barriers = operand_def(MBARRIER_GROUP)
    mbarId = operand_def(INDEX)
    count = operand_def(INDEX)
    token = result_def(MBARRIER_TOKEN)

    SYNTAX: ClassVar = syntax("$barriers[$mbarId], $count attr-dict : barrier-type -> type($token)")
    UNDEFINED: ClassVar = (_UNINITIALIZED, _OUTSIDE, "the phase would end")
    EXAMPLES: ClassVar = examples(
        "%token = nvgpu.mbarrier.arrive.nocomplete %bars[%i], %n : !bars -> !nvgpu.mbarrier.token"
    )


@nvgpu_op("mbarrier.arrive.expect_tx", group=GROUP)
class MBarrierArriveExpectTxOp(NvgpuOp):
    """Makes the phase wait for ``txcount`` more bytes of asynchronous copies, then arrives once.

    Nothing happens where ``predicate`` is there and false.
    """

    barriers = operand_def(MBARRIER_GROUP)
    txcount = operand_def(INDEX)
    mbarId = operand_def(INDEX)
    predicate = opt_operand_def(I1)

    SYNTAX: ClassVar = syntax(
        "$barriers[$mbarId], $txcount (, predicate = $predicate)? attr-dict : barrier-type"
    )
    UNDEFINED: ClassVar = (_UNINITIALIZED, _OUTSIDE, "txcount is not from 0 to 2**20 - 1")
    EXAMPLES: ClassVar = examples(
        "nvgpu.mbarrier.arrive.expect_tx %bars[%i], %n : !bars",
        "nvgpu.mbarrier.arrive.expect_tx %bars[%i], %n, predicate = %p : !bars",
    )


@nvgpu_op("mbarrier.test.wait", group=GROUP)
class MBarrierTestWaitOp(NvgpuOp):
    """Whether the phase that ``token`` belongs to has ended. Does not wait."""

    barriers = operand_def(MBARRIER_GROUP)
    token = operand_def(MBARRIER_TOKEN)
    mbarId = operand_def(INDEX)
    waitComplete = result_def(I1)

    SYNTAX: ClassVar = syntax("$barriers[$mbarId], $token attr-dict : barrier-type, type($token)")
    UNDEFINED: ClassVar = (
        _UNINITIALIZED,
        _OUTSIDE,
        "the token is of neither the current phase nor the one before",
    )
    EXAMPLES: ClassVar = examples(
        "%done = nvgpu.mbarrier.test.wait %bars[%i], %mt : !bars, !nvgpu.mbarrier.token"
    )


@nvgpu_op("mbarrier.try_wait.parity", group=GROUP)
class MBarrierTryWaitParityOp(NvgpuOp):
    """Waits until the phase whose number is even (0) or odd (1) has ended.

    ``ticks`` nanoseconds is a hint for how long to sleep between two looks.
    """

    barriers = operand_def(MBARRIER_GROUP)
    phaseParity = operand_def(I1)
    ticks = operand_def(INDEX)
    mbarId = operand_def(INDEX)

    SYNTAX: ClassVar = syntax("$barriers[$mbarId], $phaseParity, $ticks attr-dict : barrier-type")
    UNDEFINED: ClassVar = (_UNINITIALIZED, _OUTSIDE)
    EXAMPLES: ClassVar = examples("nvgpu.mbarrier.try_wait.parity %bars[%i], %p, %n : !bars")
