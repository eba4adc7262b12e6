"""The diagnostic codes of the rules of upstream dialects. Those that begin with ``nvgpu`` are its, too."""

from tilewright.diagnostics import define_code

MEMORY_SPACE = define_code(
    "nvgpu-memory-space",
    "A memref or barrier is in the wrong memory space for the operation.",
    "Shared memory is the memory space `3` or `#gpu.address_space<workgroup>`.",
)
ELEMENT_TYPE = define_code(
    "nvgpu-element-type", "Element types do not match, or the operation does not support them."
)
INDEX_COUNT = define_code(
    "nvgpu-index-count", "The number of indices of a memref or tensor map differs from its rank."
)
COPY_SIZE = define_code(
    "nvgpu-copy-size",
    "The instruction does not support the size of an asynchronous copy.",
    "`cp.async` copies 4, 8 or 16 bytes; past the L1 cache it copies 16.",
)
FRAGMENT = define_code(
    "nvgpu-fragment",
    "The shape of a thread's fragment of a matrix does not match the instruction.",
    "Each row of a fragment is what one register holds.",
)
KERNEL = define_code(
    "gpu-function",
    "A gpu function is in the wrong place, or its body does not match its type.",
)
DUPLICATE_SYMBOL = define_code(
    "gpu-duplicate-symbol", "Two operations of a gpu.module define the same symbol."
)
GROUP_COUNT = define_code("nvgpu-group-count", "A number of unfinished groups is negative.")
REGISTER_COUNT = define_code(
    "nvvm-register-count", "The hardware does not support this number of registers per thread."
)
ALIGNMENT = define_code("memref-alignment", "An alignment is not a power of two.")
INITIAL_VALUE = define_code(
    "memref-initial-value",
    "The shape or element type of an initial value differs from that of its memory.",
)
VECTOR_SHAPE = define_code(
    "vector-shape",
    "A vector rearrangement has positions out of range, or the wrong result shape.",
)
TRANSPOSE = define_code(
    "memref-transpose",
    "The extents or strides of a transposed memref do not match its source.",
)
REDUCTION = define_code(
    "gpu-reduction",
    "A reduction has neither an operation nor a body, or both, or a body of the wrong type.",
)
LLVM_ACCESS = define_code(
    "llvm-access",
    "The types of pointers, mask and values of an llvm operation do not match.",
    "Pointers, mask and values of a gather or scatter are vectors of one length.",
)
LLVM_ALIGNMENT = define_code(
    "llvm-alignment", "An alignment is not a power of two, or an atomic access lacks one."
)
LLVM_ORDERING = define_code(
    "llvm-ordering", "An atomic access cannot have this memory ordering, or has no scope."
)
LLVM_ATOMIC_TYPE = define_code(
    "llvm-atomic-type", "Atomic accesses do not support values of this type."
)
LLVM_POSITION = define_code("llvm-position", "A struct has no member with this index.")
NVVM_ROUNDING = define_code("nvvm-rounding", "A conversion does not have this rounding mode.")
LLVM_INTRINSIC = define_code(
    "llvm-intrinsic",
    "An intrinsic is called with wrong types, or is unknown.",
)
