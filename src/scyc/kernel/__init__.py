"""Kernels in Triton for stacks on a GPU; imported only where Triton and a CUDA device are."""
