"""Diagnostic codes of a run on the simulator."""

from tilewright.diagnostics import define_code

UNSUPPORTED = define_code(
    "sim-unsupported", "The simulator cannot run this operation, type or form of control flow."
)
ARCHITECTURE = define_code(
    "sim-architecture",
    "The architecture of the run does not have this operation.",
    "The message names the first architecture that has it. `wgmma` exists on sm_90a only.",
)
ARGUMENT = define_code(
    "sim-argument",
    "The arguments, the grid or the block of a launch do not fit the kernel.",
    "A memref takes a NumPy array of its element type, rank, extents and strides; a tensor map "
    "takes an array or a `TensorMap`; other parameters take numbers.",
)
KERNEL = define_code("sim-kernel", "The module has no such kernel, or has several.")
TENSOR_MAP = define_code(
    "sim-tensor-map",
    "The driver would refuse to encode this tensor map.",
    "Addresses and strides are multiples of 16 bytes, a row of the box is a multiple of 16 bytes "
    "and no longer than the swizzle, extents of boxes are from 1 to 256.",
)
OUT_OF_BOUNDS = define_code(
    "sim-out-of-bounds", "An access lies outside its memref, or outside the memory behind it."
)
MISALIGNED = define_code(
    "sim-misaligned",
    "An address is not aligned as the instruction needs it.",
    "`cp.async` needs the size of the copy, `ldmatrix` 16 bytes, vectors their size, TMA 128 bytes "
    "and the swizzle pattern (1024 bytes for swizzle_128b), which matrix descriptors need as well.",
)
DIVERGENT = define_code(
    "sim-divergent-collective",
    "Not all threads that must execute an instruction together do so.",
    "`ldmatrix`, `mma`, `wgmma`, barriers of the block and shuffles are executed by whole warps; "
    "`wgmma` by four warps in the same order.",
)
UNWAITED_COPY = define_code(
    "sim-copy-not-awaited",
    "Data of an asynchronous copy are used, or its memory is, before the copy has been waited for.",
    "`cp.async`: wait for its group, then pass a barrier of the block. TMA loads: wait for the "
    "phase of their mbarrier. TMA stores: commit, and wait with `read` before the source is "
    "written again or the block ends, and without `read` before somebody uses what they wrote.",
)
UNWAITED_PRODUCT = define_code(
    "sim-accumulator-not-awaited",
    "An accumulator is read, or an operand is written, before the product has been waited for.",
    "`waitGroup = 0`, or `nvvm.wgmma.wait.group.sync.aligned`, makes the results readable. Where "
    "waitGroup is absent, the product may still be under way.",
)
RACE = define_code(
    "sim-race",
    "Two warps access the same bytes of memory, one writes, and nothing orders them.",
    "Also lanes of a warp that write different values to one place in one instruction. Barriers of the block, named barriers and mbarriers order what comes before an arrival "
    "before what comes after the wait.",
)
PROXY_FENCE = define_code(
    "sim-missing-proxy-fence",
    "Memory that was written by ordinary stores is used by TMA or wgmma without a fence.",
    "Shared memory: put `nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, ...}` behind the stores, in the "
    "thread that did them, and a barrier behind the fence. Global memory, in the same launch: `{kind = "
    "#nvvm.proxy_kind<async>}` behind the stores, or before the load in a thread that knows of them.",
)
DEADLOCK = define_code(
    "sim-deadlock",
    "Every warp that has not ended waits for something that will not happen.",
    "The notes say which warp waits for what, and what has still to arrive there; of blocks that wait for "
    "memory, in which loops they are, and what they asked for and found.",
)
REGISTERS = define_code(
    "sim-registers",
    "A warp increases its registers to fewer than it has, or decreases them to more.",
)
TRANSACTIONS = define_code(
    "sim-transaction-count",
    "A barrier expects another number of bytes than the copies bring.",
    "`expect_tx` takes the bytes of all boxes of the phase, full boxes also where they stick out of "
    "the tensor; each thread that executes it expects them once more.",
)
ARRIVALS = define_code(
    "sim-arrival-count",
    "A barrier gets more arrivals in a phase than its init says, or the count is impossible.",
)
BARRIER_STATE = define_code(
    "sim-barrier-state",
    "A barrier is used before it is initialized, initialized twice, or with a stale token.",
)
UNINITIALIZED = define_code("sim-uninitialized", "Shared memory is read that nobody has written.")
SPARSITY = define_code("sim-sparsity", "The metadata of a sparse product name no two elements.")
STEP_LIMIT = define_code(
    "sim-step-limit",
    "A warp takes more turns of loops than the run allows.",
    "Raise `max_steps` for kernels that need more.",
)
ASSERTION = define_code("sim-assertion", "An assertion of the kernel does not hold.")
UNDEFINED = define_code(
    "sim-undefined-arithmetic",
    "An operation is given numbers for which it has no meaning.",
    "A division of integers by zero, zero to a negative power, a loop whose step is zero or negative, a shuffle "
    "among a number of lanes that is no power of two up to 32.",
)
