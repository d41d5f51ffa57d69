"""Benchmarks: of the ortbench that pip installed, as the tests are."""

from tests import installed  # noqa: F401 - before anything of ortbench is
