"""The diagnostic codes of the rules of upstream dialects. Those that begin with ``nvgpu`` are its, too."""

from tilewright.diagnostics import define_code

MEMORY_SPACE = define_code(
    "nvgpu-memory-space",
    "A memref or a barrier is in another memory space than the operation works on.",
    "Shared memory is the memory space `3` or `#gpu.address_space<workgroup>`.",
)
ELEMENT_TYPE = define_code(
    "nvgpu-element-type", "Element types do not agree, or the operation does not take them."
)
INDEX_COUNT = define_code(
    "nvgpu-index-count", "A memref or tensor map is indexed with another number than its rank."
)
COPY_SIZE = define_code(
    "nvgpu-copy-size",
    "An asynchronous copy moves a number of bytes that the instruction does not.",
    "`cp.async` copies 4, 8 or 16 bytes; past the L1 cache it copies 16.",
)
FRAGMENT = define_code(
    "nvgpu-fragment",
    "The part of a matrix that a thread holds has another shape than the instruction gives it.",
    "Each row of a fragment is what one register holds.",
)
KERNEL = define_code(
    "gpu-function",
    "A gpu function is in the wrong place, or its body does not match its type.",
)
DUPLICATE_SYMBOL = define_code(
    "gpu-duplicate-symbol", "Two operations of one gpu.module define one symbol."
)
GROUP_COUNT = define_code("nvgpu-group-count", "A number of unfinished groups is negative.")
REGISTER_COUNT = define_code(
    "nvvm-register-count", "The hardware does not give a thread such a number of registers."
)
ALIGNMENT = define_code("memref-alignment", "An alignment is not a power of two.")
INITIAL_VALUE = define_code(
    "memref-initial-value", "An initial value has another shape or element type than its memory."
)
VECTOR_SHAPE = define_code(
    "vector-shape",
    "A rearrangement of a vector names places that it does not have, or gives another shape.",
)
TRANSPOSE = define_code(
    "memref-transpose",
    "A transposed memref has other extents or strides than its source in that order.",
)
REDUCTION = define_code(
    "gpu-reduction",
    "A reduction has neither an operation nor a body for it, or both, or a body of another type.",
)
LLVM_ACCESS = define_code(
    "llvm-access",
    "The types of pointers, mask and values of an operation of llvm do not fit together.",
    "Pointers, mask and values of a gather or scatter are vectors of one length.",
)
LLVM_ALIGNMENT = define_code(
    "llvm-alignment", "An alignment is not a power of two, or an atomic access lacks one."
)
LLVM_ORDERING = define_code(
    "llvm-ordering", "An atomic access cannot have this memory ordering, or has no scope."
)
LLVM_ATOMIC_TYPE = define_code("llvm-atomic-type", "No atomic access takes values of this type.")
LLVM_POSITION = define_code("llvm-position", "A struct has no member of this number.")
NVVM_ROUNDING = define_code("nvvm-rounding", "A conversion does not have this rounding mode.")
LLVM_INTRINSIC = define_code(
    "llvm-intrinsic",
    "An intrinsic is called with other types than it takes, or what is called is none.",
)
