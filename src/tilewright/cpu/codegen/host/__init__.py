"""What kernels ask of the host: callbacks, prints and assertions, external functions."""
