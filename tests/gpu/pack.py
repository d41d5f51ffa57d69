"""All packages that the run needs on a machine without a network, in one archive that is as small as it can be.

    python -m tests.gpu.pack OUT_DIR [--python 3.12] [--sm 90] [--there NAME …] [--also NAME …] [--nsys FOLDER] [--part MIB]

pip downloads them, with what they need, for the Python of that machine. onnxruntime-gpu is by far the largest: it has CUDA code for many
architectures, of which a machine needs that of its own card. The images of all others are blanked, which the driver never loads, and
TensorRT's part is left out. README.md in this folder has the options. Writes ``site.tar.xz``, whole or in parts of so many MiB.
"""

from __future__ import annotations

import argparse
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

# `test` and `pandas` and `scipy` (gates, notebooks) are left out: with them it is 48 MB more.
PACKAGES = (
    "onnxruntime-gpu>=1.28", "onnx", "typer", "rich", "nvidia-ml-py", "psutil", "msgspec", "nvtx", "matplotlib", "jinja2",
    "cupti-python>=13", "setuptools>=77",
)  # fmt: skip
_MANYLINUX = ("2_28", "2_27", "2_25", "2_24", "2_17")
# TensorRT, the library for C, tools, and performance counters, which CUPTI's activities do without.
_UNUSED = (
    "onnxruntime/capi/libonnxruntime_providers_tensorrt.so", "onnxruntime/capi/libonnxruntime.so*", "onnxruntime/tools",
    "onnxruntime/transformers", "onnxruntime/quantization", "onnxruntime/datasets", "nvidia/*/lib/libnvperf*",
    "nvidia/*/lib/libcheckpoint*", "cupti-python-samples",
)  # fmt: skip
# Of Nsight Systems' folder target-linux-x64: what traces CUDA and NVTX.
_NSYS = (
    "nsys", "nsys-launcher", "launcher", "libToolsInjection64.so", "libToolsInjectionProxy64.so", "libToolsInjectionMemoryAllocator.so",
    "libPreRunProcessInjector.so", "libLauncher64.so", "libnvlog.so", "nvgpucs", "CudaGpuInfoDumper", "GpuMetrics", "NvTraceFormat",
)  # fmt: skip
_CUDA = "onnxruntime/capi/libonnxruntime_providers_cuda.so"

# The container of CUDA's images, as `cuobjdump` shows it: a header, then entries, each with a header of its own.
_MAGIC = 0xBA55ED50
_ELF_IMAGE = 2  # the other kinds are PTX and the like, which the driver would compile


def install(site: Path, python: str, also: Sequence[str] = ()) -> None:
    """Have pip put the packages and what they need into a folder, for a Python on 64-bit x86 Linux."""
    platforms = [word for tag in _MANYLINUX for word in ("--platform", f"manylinux_{tag}_x86_64")]
    words = (
        "-m pip install --quiet --no-compile --only-binary=:all: --implementation cp --platform manylinux2014_x86_64"
    )
    line = [sys.executable, *words.split(), *platforms, "--python-version", python, "--target", str(site)]
    subprocess.run([*line, *PACKAGES, *also], check=True)


def leave_out(site: Path, names: Sequence[str]) -> None:
    """Remove packages with all their files; names of others are passed over."""
    found = distributions(path=[str(site)])
    packed: dict[str, Distribution] = {_as_pip_has_it(it.metadata["Name"]): it for it in found}
    for name in packed.keys() & set(map(_as_pip_has_it, names)):
        for file in packed[name].files or ():
            (site / file).unlink(missing_ok=True)
    for folder in sorted((path for path in site.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


def _as_pip_has_it(name: str) -> str:
    """A package's name as all tools compare it (PyPA's specification of names): "ML_dtypes" is "ml-dtypes"."""
    return re.sub(r"[-_.]+", "-", name).lower()


def slim(site: Path, sm: int) -> None:
    """Leave of onnxruntime-gpu what one architecture needs."""
    for pattern in _UNUSED:
        for path in site.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    library = site / _CUDA
    library.write_bytes(with_one_architecture(library.read_bytes(), sm))


def add_nsys(site: Path, folder: Path) -> None:
    """What `nsys profile` needs of Nsight Systems' folder target-linux-x64, with the newest CUPTI in it; exits where it is none."""
    libraries = sorted(folder.glob("libcupti.so.*"), key=lambda path: [*map(int, path.name.split(".")[2:])])
    if not libraries or not (folder / "nsys").is_file():
        sys.exit(f"--nsys {folder}: it is no target-linux-x64 of Nsight Systems")
    there = site / "nsight-systems" / folder.name
    there.mkdir(parents=True)
    for path in (libraries[-1], *(folder / name for name in _NSYS)):
        if path.is_dir():
            shutil.copytree(path, there / path.name)
        elif path.is_file():
            shutil.copy2(path, there / path.name)


def with_one_architecture(library: bytes, sm: int) -> bytes:
    """A library with every CUDA image blanked that is not machine code for an architecture, such as 90; exits where there is none."""
    data, kept = bytearray(library), 0
    for arch, kind, start, size in _images(library):
        if kind == _ELF_IMAGE and arch == sm:
            kept += size
        else:
            data[start : start + size] = bytes(size)
    if not kept:
        sys.exit(f"this onnxruntime-gpu has no code for sm_{sm}")
    return bytes(data)


def _images(library: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Architecture, kind, start and size of each image in the section ``.nv_fatbin``."""
    at, size = _section(library, b".nv_fatbin")
    end = at + size
    while at < end:
        magic, _, header, body = struct.unpack_from("<IHHQ", library, at)
        if magic != _MAGIC:  # containers begin at multiples of 8
            at += 8
            continue
        entry, stop = at + header, at + header + body
        while entry < stop:
            kind, _, own_header, payload = struct.unpack_from("<HHIQ", library, entry)
            (arch,) = struct.unpack_from("<I", library, entry + 28)
            yield arch, kind, entry + own_header, payload
            entry += own_header + payload
        at = (stop + 7) // 8 * 8


def _section(elf: bytes, wanted: bytes) -> tuple[int, int]:
    """Offset and size of a section of a 64-bit little-endian ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    step, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + number * step) for number in range(count)]
    for name, _, _, _, offset, size in headers:
        start = headers[names][4] + name
        if elf[start : elf.index(b"\0", start)] == wanted:
            return offset, size
    sys.exit(f"no section {wanted.decode()}")


def pack(site: Path, out: Path, part_mib: int | None) -> list[Path]:
    """The folder as ``site.tar.xz``, or as ``site.tar.xz.00`` … of so many MiB."""
    archive = out / "site.tar.xz"
    with tarfile.open(archive, "w:xz", preset=6) as tar:
        for path in sorted(site.iterdir()):
            tar.add(path, path.name)
    if part_mib is None:
        return [archive]
    parts, content, size = [], archive.read_bytes(), part_mib * 2**20
    for number, start in enumerate(range(0, len(content), size)):
        parts.append(out / f"{archive.name}.{number:02}")
        parts[-1].write_bytes(content[start : start + size])
    archive.unlink()
    return parts


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.pack", description="Pack what a GPU machine needs.")
    parser.add_argument("out", type=Path, metavar="OUT_DIR")
    parser.add_argument("--python", default="3.12", help="of that machine")
    parser.add_argument("--sm", type=int, default=90, help="architecture of its card: 90 is H100 and H200")
    there = "packages that it has; others may be named"
    parser.add_argument("--there", action="extend", nargs="+", default=[], metavar="NAME", help=there)
    parser.add_argument("--also", action="append", default=[], metavar="NAME", help="one more package; repeatable")
    parser.add_argument("--nsys", type=Path, metavar="FOLDER", help="target-linux-x64 of Nsight Systems")
    parser.add_argument("--part", type=int, metavar="MIB", help="the largest file that can be sent")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        install(site, given.python, given.also)
        leave_out(site, given.there)
        slim(site, given.sm)
        if given.nsys is not None:
            add_nsys(site, given.nsys)
        for path in pack(site, given.out, given.part):
            print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
