"""A CUDA runtime on the CPU, on which ONNX Runtime's own CUDA execution provider runs without a GPU."""

from .softcuda import VENDOR_ID, Card, Config, Record, build, problem, records, users, wrapper

__all__ = ["VENDOR_ID", "Card", "Config", "Record", "build", "problem", "records", "users", "wrapper"]
