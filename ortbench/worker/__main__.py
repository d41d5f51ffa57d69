"""Starts a worker under any interpreter: ``PYTHON .../ortbench/worker/__main__.py``. It is a script, and nothing imports it.

It makes this very ortbench known by its folder, be it in a source tree or in another environment's site-packages. What
lies beside that folder stays unknown: on the search path, its ONNX Runtime would come before the interpreter's own.

It is written so that an interpreter that is too old can read it, and say so.
"""

import sys

OLDEST = (3, 10)  # Python's versions that the worker's modules can be read by

if sys.version_info < OLDEST:
    sys.exit("Python %d.%d is too old: ortbench measures with 3.10 or newer" % sys.version_info[:2])  # noqa: UP031


def main():  # type: ignore[no-untyped-def] # annotations are not for Python 2
    if not getattr(sys.flags, "safe_path", False):  # new in Python 3.11, and an interpreter may be older
        del sys.path[0]  # where Python puts a script's folder, which has modules named like those of other packages
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    spec = spec_from_file_location("ortbench", Path(__file__).parents[1] / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["ortbench"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["ortbench"])
    from ortbench.worker import answer_requests

    answer_requests(*sys.argv[1:])


if __name__ == "__main__":
    main()  # type: ignore[no-untyped-call]
