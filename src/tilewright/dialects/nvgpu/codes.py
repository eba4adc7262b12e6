"""The diagnostic codes of the rules of ``nvgpu`` alone; what others need too is in ``upstream.base.codes``."""

from tilewright.diagnostics import define_code

STRIDE = define_code("nvgpu-stride", "The last dimension of a memref is not contiguous.")
LDMATRIX = define_code(
    "nvgpu-ldmatrix",
    "The instruction cannot load such matrices.",
    "`ldmatrix` loads 1, 2 or 4 matrices of 8 rows of 16 bytes, and transposes elements of "
    "16 bits only.",
)
MMA_TYPE = define_code("nvgpu-mma-type", "No tensor-core instruction has these types.")
MMA_SHAPE = define_code("nvgpu-mma-shape", "No tensor-core instruction has this shape.")
SPARSITY = define_code("nvgpu-sparsity", "The sparsity selector does not exist.")
TF32 = define_code("nvgpu-tf32", "tf32Enabled requires f32 operands.")
RCP = define_code(
    "nvgpu-rcp", "The reciprocal has only the approximate mode that flushes subnormals."
)
TENSOR_MAP = define_code(
    "nvgpu-tensor-map",
    "A tensor map describes a box that cannot be copied.",
    "A box is a static memref in shared memory, with extents from 1 to 256; it is not interleaved. "
    "Rows of a swizzled box are 128 bytes long, or as long as the pattern of its swizzle.",
)
BOX = define_code("nvgpu-box", "A memref does not match the box of its tensor map.")
DESCRIPTOR = define_code(
    "nvgpu-descriptor",
    "A warpgroup matrix descriptor cannot be created from such a tensor map.",
    "Descriptors require tensor maps with swizzle_128b that are not interleaved.",
)
WGMMA_SHAPE = define_code(
    "nvgpu-wgmma-shape",
    "The extents of a warpgroup product do not match, or no instruction has them.",
    "An instruction has 64 rows of A and of the accumulator, 8 to 256 columns of B in steps of 8, "
    "and for integers fewer steps.",
)
WGMMA_TYPE = define_code(
    "nvgpu-wgmma-type", "No warpgroup product exists for matrices of these types."
)
WGMMA_TRANSPOSE = define_code(
    "nvgpu-wgmma-transpose", "Warpgroup products take A by rows, and B transposed or not."
)
WGMMA_STORE = define_code("nvgpu-wgmma-store", "An accumulator cannot be stored to such a memref.")
