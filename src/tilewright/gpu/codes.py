"""Diagnostic codes of compiling for GPUs, and of running on one."""

from tilewright.diagnostics import define_code

UNSUPPORTED = define_code(
    "gpu-unsupported",
    "An operation, a type or a form of it cannot be compiled for GPUs.",
    "docs/gpu.md lists what can.",
)
ARCHITECTURE = define_code(
    "gpu-architecture",
    "The target architecture does not support an operation.",
    "The message names the first architecture that has it; `--target` chooses one.",
)
UNKNOWN_TARGET = define_code("gpu-unknown-target", "The GPU architecture is unknown.")
UNKNOWN_KERNEL = define_code(
    "gpu-unknown-kernel",
    "The module has no kernel of that name.",
    "A kernel is a `gpu.func` with the keyword `kernel`, in a `gpu.module`.",
)
SHARED_MEMORY = define_code(
    "gpu-shared-memory", "A kernel needs more shared memory than a block of the architecture has."
)
BUDGET = define_code(
    "gpu-compile-budget",
    "Compiling a kernel exceeds the time limit.",
    "Tiles with hundreds of elements per thread become very long code. Use smaller tiles or more "
    "warps per block.",
)
REGISTER_POOL = define_code(
    "gpu-register-pool",
    "Warps request registers that their block never has.",
    "The register budget of a block is fixed at launch: registers per thread times warps. A "
    "warpgroup can have more only if others release theirs: 12 warps of 168 registers can become "
    "4 of 40 and 8 of 232. All warps of a warpgroup execute the same setmaxnreg.",
)
UNKNOWN_SYMBOL = define_code(
    "gpu-unknown-symbol", "A function or memref.global is not defined in the module of the kernel."
)
RECURSION = define_code(
    "gpu-recursion", "A function is recursive, directly or through other functions."
)
MISSING_TOOL = define_code(
    "gpu-missing-tool",
    "A required external tool or library is not installed.",
    "The message names the package on PyPI that has it.",
)
LLVM_FAILED = define_code(
    "gpu-llvm-failed",
    "LLVM rejected code that Tilewright generated.",
    "This is a bug of Tilewright, not of the kernel. `tilewright compile --emit llvm` shows the "
    "code; please report it together with the kernel.",
)
ASSEMBLER_FAILED = define_code(
    "gpu-assembler-failed",
    "ptxas rejected PTX that Tilewright generated.",
    "This is a bug of Tilewright, or ptxas is older than the architecture.",
)
NO_GPU = define_code(
    "gpu-not-available",
    "No GPU or driver is available, or the GPU cannot run the kernel.",
    "Running needs an NVIDIA GPU, its driver, and the package cuda-bindings.",
)
LAUNCH = define_code(
    "gpu-launch", "The arguments, block or grid of a launch do not match the kernel."
)
KERNEL_FAILED = define_code(
    "gpu-kernel-failed",
    "A kernel failed on the GPU, which also ends all other work of the process there.",
    "The driver then rejects every further call, also from other libraries; a new process is "
    "needed. The simulator (`--machine sim:ARCH`) runs the same code and names the operation.",
)
LOST_GPU = define_code(
    "gpu-lost", "The process cannot use the GPU any more because an earlier kernel failed."
)
OUT_OF_MEMORY = define_code(
    "gpu-out-of-memory", "The GPU does not have the memory that a launch needs."
)
