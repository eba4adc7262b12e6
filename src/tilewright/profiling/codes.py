"""The diagnostic codes of profiles."""

from tilewright.diagnostics import define_code

BLOCK_OF_THREADS = define_code(
    "profile-block",
    "A profile needs the threads of a block.",
    "Kernels of nvgpu may leave them to the launch; give those that it has.",
)
