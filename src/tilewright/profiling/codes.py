"""The diagnostic codes of profiles."""

from tilewright.diagnostics import define_code

BLOCK_OF_THREADS = define_code(
    "profile-block",
    "A profile needs the number of threads per block.",
    "Kernels of nvgpu may leave it to the launch; give the number of the launch.",
)
