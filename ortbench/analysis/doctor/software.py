"""ONNX Runtime, its packages, its EPs and the libraries of CUDA. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ortbench.analysis.doctor.finding import BAD, GOOD, KNOW, Finding, number
from ortbench.analysis.packages import MISNAMED, SHARED, in_folder, mending, overwritten
from ortbench.core.ep_names import is_nvidia
from ortbench.core.library_sources import CUDA_PACKAGE, origin
from ortbench.core.safe_text import listed
from ortbench.model.doctor_schema import Cuda, Facts, Installed, Nvidia, Profiler
from ortbench.model.hardware_names import kind
from ortbench.model.protocol import ListedEp

# The oldest driver for a major version of CUDA on Linux, from the table in CUDA's release notes.
_DRIVERS = {12: "525", 13: "580"}
_TO_LOAD = ("libcudart", "libcublas", "libcurand", "cudart", "cublas", "curand")  # the others are opened when wanted
_NSIGHT_TOO_OLD, _NVTX_NEW = (2024, 2), (0, 2, 12)  # no newer Nsight Systems takes no ranges from nvtx since then
_NSIGHT = "https://developer.nvidia.com/nsight-systems"


def packages(facts: Facts) -> Iterator[Finding]:
    """ONNX Runtime, and who else brings a module of its name."""
    found, module = facts["packages"]["distributions"], facts["packages"]["module"]
    installed = facts["installed"]
    if installed is None:
        mend = "pip install onnxruntime" if module is None else "pip install --force-reinstall onnxruntime"
        if found:
            again = f"pip install --force-reinstall {found[0]['name']}=={found[0]['version']}"
            mend = mending(facts["problem"] or "", facts["packages"]["numpy"]) or again
        problem = re.sub(r"; (install|mend) it with: .*", "", facts["problem"] or "")  # the command stands for itself
        yield Finding(BAD, f"ONNX Runtime does not work: {problem}", mend)
    else:
        of = f" of the package {installed['package']}" if installed["package"] else ""
        yield Finding(GOOD, f"ONNX Runtime {installed['runtime']['onnxruntime']}{of}; {facts['system']}")
    together = in_folder(found, module)
    clash = overwritten(together)
    if clash is not None:
        yield Finding(BAD, clash.sentence, " && ".join(clash.commands))
    elif together and installed is not None and installed["package"] not in (None, together[0]["name"]):
        it = together[0]
        text = (
            f"the package is {it['name']} {it['version']}, and the module's files are those of {installed['package']}"
        )
        yield Finding(BAD, text, f"pip install --force-reinstall --no-deps {it['name']}=={it['version']}")
    for other in found:
        if other not in together:
            text = (
                f"{other['name']} {other['version']} in {other['folder']} is hidden: the module of {module} comes first"
            )
            yield Finding(KNOW, text)


def providers(facts: Facts) -> Iterator[Finding]:
    """Each EP: its devices, or why it has none; of those that share a name also whose they are."""
    installed = facts["installed"]
    if installed is None:
        return
    names = [ep["name"] for ep in installed["eps"]]
    for ep in installed["eps"]:
        yield _provider(ep, facts["nvidia"], names.count(ep["name"]) > 1)
    for warning in installed.get("warnings", ()):
        if warning["code"] in (SHARED, MISNAMED):
            yield Finding(KNOW, warning["message"])


def _provider(ep: ListedEp, nvidia: Nvidia, shares_name: bool) -> Finding:
    version = f" {ep['version']}" if ep["version"] else ""
    package = f" of {ep['package']}" if shares_name and ep["package"] else ""
    name = f"{ep['name']}{version}{package}"
    if ep["problem"] is None:
        kinds = [kind(it["hardware"]) for it in ep["devices"] if "vendor" in it["hardware"]]
        if ep["devices"] and not kinds:
            return Finding(
                KNOW, f"{name} is known to ONNX Runtime by its name alone: only a session shows whether it runs"
            )
        if kinds:
            return Finding(GOOD, f"{name} loads and runs on {listed(kinds)}")
        return Finding(KNOW, f"{name} loads and finds no device that it can use here")
    # A library that is missing is named without where it comes from, which stands behind.
    problem = ep["problem"] if ep["missing"] is None else f"the shared library {ep['missing']} is missing"
    text = f"{name} does not load: {problem}"
    if is_nvidia(ep["name"]) and not nvidia["present"]:
        return Finding(KNOW, f"{text}; there is no NVIDIA card that it could use")
    where = None if ep["missing"] is None else origin(ep["missing"])
    if where is None:
        return Finding(BAD, f"{name} does not load: {ep['problem']}")
    return Finding(BAD, text if where.command else f"{text} ({where.what})", where.command)


def cuda(facts: Facts) -> Iterator[Finding]:
    """CUDA, cuDNN and the driver against what this ONNX Runtime was built for; nothing where there is neither card nor CUDA."""
    nvidia, installed = facts["nvidia"], facts["installed"]
    built = None if installed is None else installed["cuda"]
    if nvidia["present"]:
        yield _driver(nvidia, built)
    if built is not None and (nvidia["present"] or any(it["found"] for it in built["libraries"])):
        yield from _libraries(built, nvidia["present"])
    elif built is None and installed is not None and nvidia["present"] and not _has_nvidia_ep(installed):
        text = "this ONNX Runtime was built without CUDA, so that it leaves the NVIDIA card alone"
        yield Finding(KNOW, text, f"pip uninstall -y onnxruntime && pip install '{CUDA_PACKAGE}'")


def _has_nvidia_ep(installed: Installed) -> bool:
    """Whether a package brings an EP for NVIDIA's cards, which this ONNX Runtime then need not have in itself."""
    return any(is_nvidia(ep["name"]) for ep in installed["eps"])


def _driver(nvidia: Nvidia, built: Cuda | None) -> Finding:
    if nvidia["driver"] is None:
        text = "there is an NVIDIA card, and no driver answers for it: install one, or give the container the card"
        return Finding(BAD, text, "nvidia-smi")
    takes = number(nvidia["cuda"], 1)
    needs = None if built is None else number(built["built_for"], 1)
    text = f"NVIDIA's driver {nvidia['driver']}" + (f", for CUDA up to {nvidia['cuda']}" if nvidia["cuda"] else "")
    if built is None or takes is None or needs is None:
        return Finding(GOOD, text)
    if takes < needs:
        least = f" (CUDA {needs[0]}: {_DRIVERS[needs[0]]} or newer)" if needs[0] in _DRIVERS else ""
        text = f"{text}: too old for this ONNX Runtime, which was built for CUDA {built['built_for']}; install a newer one{least}"
        return Finding(BAD, text, f"apt install nvidia-driver-{_DRIVERS[needs[0]]}" if needs[0] in _DRIVERS else "")
    return Finding(GOOD, f"{text}; this ONNX Runtime was built for CUDA {built['built_for']}")


def _libraries(built: Cuda, needed: bool) -> Iterator[Finding]:
    """Which are loaded, where each is found, which are missing and which are there twice."""
    for what, version in (("CUDA's runtime", built["runtime"]), ("cuDNN", built["cudnn"])):
        if version is not None:
            yield Finding(GOOD, f"{what} {version} is loaded")
    missing = [it for it in built["libraries"] if not it["found"] and it["loaded"] is None]
    for needed_to_load in (True, False):
        absent = [it for it in missing if it["name"].startswith(_TO_LOAD) == needed_to_load]
        if absent:
            yield _missing(
                [it["name"] for it in absent],
                [path for it in absent for path in it["others"]],
                needed and needed_to_load,
            )
    for library in built["libraries"]:
        places, loaded = library["found"], library["loaded"]
        if len(places) > 1:
            taken = f"{loaded} is the one loaded" if loaded else "the first on the search path is taken"
            yield Finding(KNOW, f"{library['name']} is there {len(places)} times, in {listed(places)}; {taken}")
        elif loaded or places:
            yield Finding(GOOD, f"{library['name']}: {loaded or places[0]}")


def _missing(names: Sequence[str], others: Sequence[str], stops: bool) -> Finding:
    """Libraries that are not there; whether that stops an EP here, and others of them that do not help."""
    needed = "the CUDA EP does not load without" if names[0].startswith(_TO_LOAD) else "some operators need"
    versions = f"; other versions do not help: {', '.join(others)}" if others else ""
    text = f"{needed} {listed(names)}: not found{versions}"
    return Finding(BAD if stops else KNOW, text, f"pip install '{CUDA_PACKAGE}'")


def profiler(facts: Facts) -> Iterator[Finding]:
    """Nsight Systems and nvtx."""
    found = facts["profiler"]
    if found["problem"] is not None:
        yield Finding(BAD, f"Nsight Systems does not start: {found['problem']}", "nsys --version")
    elif found["nsys"] is not None:
        yield _nsight(found, found["nsys"])
    else:
        yield Finding(KNOW, f"Nsight Systems is not there: 'ortbench profile' records nothing by itself ({_NSIGHT})")
    if found["nvtx"] is None and (found["nsys"] is not None or facts["nvidia"]["present"]):
        yield Finding(KNOW, "the package nvtx is not there: profilers are shown no ranges", "pip install nvtx")


def _nsight(found: Profiler, nsys: str) -> Finding:
    version, nvtx = number(nsys), number(found["nvtx"], 3)
    if version is None or nvtx is None:
        return Finding(GOOD, f"Nsight Systems {nsys}")
    if version <= _NSIGHT_TOO_OLD and nvtx >= _NVTX_NEW:
        text = f"Nsight Systems {nsys} takes no ranges from nvtx {found['nvtx']}; install a newer one from {_NSIGHT}"
        return Finding(BAD, text)
    return Finding(GOOD, f"Nsight Systems {nsys} takes ranges from nvtx {found['nvtx']}")
