"""A stand-in for the package ``cupti-python``; put this folder on ``PYTHONPATH``. See `cupti.cupti` in it."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parent
