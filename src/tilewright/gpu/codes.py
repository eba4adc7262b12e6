"""Diagnostic codes of compiling for GPUs, and of running on one."""

from tilewright.diagnostics import define_code

UNSUPPORTED = define_code(
    "gpu-unsupported",
    "An operation, a type or a form of it cannot be compiled for GPUs.",
    "docs/gpu.md lists what can.",
)
ARCHITECTURE = define_code(
    "gpu-architecture",
    "The architecture that is compiled for lacks what an operation needs.",
    "The message names the first architecture that has it; `--target` chooses one.",
)
UNKNOWN_TARGET = define_code(
    "gpu-unknown-target", "There is no GPU architecture of that name, or none that is known."
)
UNKNOWN_KERNEL = define_code(
    "gpu-unknown-kernel",
    "The module has no kernel of that name.",
    "A kernel is a `gpu.func` with the word `kernel`, in a `gpu.module`.",
)
SHARED_MEMORY = define_code(
    "gpu-shared-memory", "A kernel needs more shared memory than a block of the architecture has."
)
BUDGET = define_code(
    "gpu-compile-budget",
    "Making code of a kernel takes longer than it may.",
    "Tiles of which each thread holds hundreds of elements become very long code. Smaller tiles, and more "
    "warps for each block, help.",
)
REGISTER_POOL = define_code(
    "gpu-register-pool",
    "Warps ask for registers that their block never has.",
    "A block has for ever what it is launched with: registers at launch times warps. A warpgroup can have "
    "more only as far as others give theirs back: 12 warps of 168 registers can become 4 of 40 and 8 of 232. "
    "All warps of a warpgroup make the same trades.",
)
UNKNOWN_SYMBOL = define_code(
    "gpu-unknown-symbol", "A function or a memref.global is used that the kernel's module lacks."
)
RECURSION = define_code("gpu-recursion", "A function calls itself, by itself or by way of others.")
MISSING_TOOL = define_code(
    "gpu-missing-tool",
    "A tool or library that is not part of Tilewright is needed and not installed.",
    "The message names the package on PyPI that has it.",
)
LLVM_FAILED = define_code(
    "gpu-llvm-failed",
    "LLVM refused code that Tilewright generated.",
    "This is a bug of Tilewright, not of the kernel. `tilewright compile --emit llvm` shows the "
    "code; please report it together with the kernel.",
)
ASSEMBLER_FAILED = define_code(
    "gpu-assembler-failed",
    "ptxas refused PTX that Tilewright generated.",
    "This is a bug of Tilewright, or ptxas is older than the architecture.",
)
NO_GPU = define_code(
    "gpu-not-available",
    "There is no GPU here, no driver for it, or it cannot run the kernel.",
    "Running needs an NVIDIA GPU, its driver, and the package cuda-bindings.",
)
LAUNCH = define_code(
    "gpu-launch", "A launch does not fit the kernel: its arguments, its block or its grid."
)
KERNEL_FAILED = define_code(
    "gpu-kernel-failed",
    "A kernel did on the GPU what ended it, and with it all work of the process there.",
    "The driver refuses every further call then, also those of other libraries, so a new process is "
    "needed. The simulator (`--machine sim:ARCH`) runs the same code and names the operation.",
)
LOST_GPU = define_code(
    "gpu-lost", "The process cannot use the GPU any more, because a kernel has failed before."
)
OUT_OF_MEMORY = define_code(
    "gpu-out-of-memory", "The GPU has not as much memory as a launch needs."
)
