// The 8-bit floating-point types are not on the CPU reference machine.
#error "replay: cuda_fp8.h is not supported, see docs/cuda-support.md"
