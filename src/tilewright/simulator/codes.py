"""Diagnostic codes of a run on the simulator."""

from tilewright.diagnostics import define_code

UNSUPPORTED = define_code(
    "sim-unsupported",
    "The simulator cannot run this operation, type or form of control flow.",
    help="docs/simulator.md lists what the simulator supports",
)
ARCHITECTURE = define_code(
    "sim-architecture",
    "The architecture of the run does not have this operation.",
    "The message names the first architecture that has it. `wgmma` exists on sm_90a only.",
    help="run on an architecture that has the operation",
)
ARGUMENT = define_code(
    "sim-argument",
    "The arguments, the grid or the block of a launch do not match the kernel.",
    "A memref takes a NumPy array of its element type, rank, extents and strides; a tensor map "
    "takes an array or a `TensorMap`; other parameters take numbers.",
)
KERNEL = define_code("sim-kernel", "The module has no such kernel, or has several.")
TENSOR_MAP = define_code(
    "sim-tensor-map",
    "The driver would reject this tensor map.",
    "Addresses and strides are multiples of 16 bytes, a row of the box is a multiple of 16 bytes "
    "and no longer than the swizzle, extents of boxes are from 1 to 256.",
)
OUT_OF_BOUNDS = define_code(
    "sim-out-of-bounds",
    "An access is outside its memref, or outside the memory of it.",
    help="guard the access, or enlarge the memory",
)
MISALIGNED = define_code(
    "sim-misaligned",
    "An address is not aligned as the instruction requires.",
    "`cp.async` needs the size of the copy, `ldmatrix` 16 bytes, vectors their size, TMA 128 bytes "
    "and the swizzle pattern (1024 bytes for swizzle_128b), which matrix descriptors need as well.",
    help="align the memory and the index to the size of the access",
)
DIVERGENT = define_code(
    "sim-divergent-collective",
    "An instruction is not executed by all threads that must execute it together.",
    "`ldmatrix`, `mma`, `wgmma`, barriers of the block and shuffles are executed by whole warps; "
    "`wgmma` by four warps in the same order.",
    help="move the instruction out of divergent control flow",
)
UNWAITED_COPY = define_code(
    "sim-copy-not-awaited",
    "The source or destination of an asynchronous copy is accessed before the copy has completed.",
    "`cp.async`: wait for its group, then pass a barrier of the block. TMA loads: wait for the "
    "phase of their mbarrier. TMA stores: commit, and wait with `read` before the source is "
    "written again or the block ends, and without `read` before what they wrote is used.",
    help="wait for the copy before its memory is accessed",
)
UNWAITED_PRODUCT = define_code(
    "sim-accumulator-not-awaited",
    "An accumulator is read or an operand is overwritten before the product has completed.",
    "`waitGroup = 0`, or `nvvm.wgmma.wait.group.sync.aligned`, makes the results readable. "
    "Without waitGroup, the product may still be in flight.",
    help="wait for the product before its accumulator is read or its operands are overwritten",
)
RACE = define_code(
    "sim-race",
    "Two warps access the same bytes without synchronization, and one of them writes.",
    "This includes lanes of a warp that write different values to one address in one instruction. "
    "Barriers of the block, named barriers and mbarriers order what comes before an arrival "
    "before what comes after the wait.",
    help="put a barrier between the two accesses",
)
PROXY_FENCE = define_code(
    "sim-missing-proxy-fence",
    "TMA or wgmma accesses memory that ordinary stores have written, without a proxy fence.",
    "Shared memory: put `nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, ...}` after the "
    "stores, in the thread that made them, and a barrier after the fence. Global memory, in the "
    "same launch: `{kind = #nvvm.proxy_kind<async>}` after the stores, or before the load in a "
    "thread that is ordered after them.",
    help="execute nvvm.fence.proxy after the writes, then synchronize",
)
DEADLOCK = define_code(
    "sim-deadlock",
    "Deadlock: every warp that has not ended waits for something that never happens.",
    "The notes say what each warp waits for and what is still missing there; for blocks that poll "
    "memory, the loop, the address and the value found.",
    help="match every wait with arrivals: see the notes for what is missing",
)
REGISTERS = define_code(
    "sim-registers",
    "setmaxnreg increases the register count to less than the warp has, or decreases it to more.",
    help="increase to more registers than the warp has, and decrease to fewer",
)
TRANSACTIONS = define_code(
    "sim-transaction-count",
    "An mbarrier expects a different number of bytes than its copies deliver.",
    "`expect_tx` takes the bytes of all boxes of the phase, each box in full even where it "
    "extends past the tensor; every thread that executes it adds them once.",
    help="expect the bytes of all boxes of the phase, once",
)
ARRIVALS = define_code(
    "sim-arrival-count",
    "An mbarrier gets more arrivals in a phase than its init allows, or its count is out of range.",
    help="initialize the barrier with the number of arrivals of a phase",
)
BARRIER_STATE = define_code(
    "sim-barrier-state",
    "An mbarrier is used before its init, initialized twice, or used with a stale token.",
    help="initialize the barrier once, before a barrier of the block, and use tokens in their "
    "phase",
)
UNINITIALIZED = define_code(
    "sim-uninitialized",
    "Uninitialized shared memory is read.",
    help="write the memory first, and synchronize",
)
SPARSITY = define_code(
    "sim-sparsity",
    "The metadata of a sparse product do not select two elements.",
    help="let each pair of metadata select two elements of a chunk in ascending order",
)
STEP_LIMIT = define_code(
    "sim-step-limit",
    "A warp exceeds the iteration limit of the run.",
    help="raise `max_steps` if the loop is meant to run longer, else check its exit condition",
)
ASSERTION = define_code(
    "sim-assertion",
    "An assertion of the kernel does not hold.",
    help="inspect the operands of the condition, for example with gpu.printf",
)
UNDEFINED = define_code(
    "sim-undefined-arithmetic",
    "An operation is undefined for its operands.",
    "A division of integers by zero, zero to a negative power, a loop whose step is zero or "
    "negative, a shuffle among a number of lanes that is not a power of two up to 32.",
    help="guard the operation against these operands",
)
