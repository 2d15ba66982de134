"""GPUs through NVIDIA's management library (NVML, by its own binding nvidia-ml-py).

Everything that calls into the library runs in a thread with a deadline: a driver in trouble hangs.
"""
