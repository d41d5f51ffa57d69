"""What facts about a machine mean, as `ortbench doctor` says it: findings, and the sections that they stand in. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ortbench.analysis.noise import WHO, used_by_others
from ortbench.analysis.packages import MISNAMED, NO_GPU, SHARED, in_folder, lacks_gpu, mending, overwritten, problem_of
from ortbench.core import units
from ortbench.core.ep_names import CUDA_PACKAGE, SHORT_NAMES, is_nvidia, origin
from ortbench.core.safe_text import listed
from ortbench.facts.sentences import phrase
from ortbench.facts.shared import busy_fact
from ortbench.features.doctor.model import Card, Cpu, Cuda, Facts, Noise, Nvidia, Profiler
from ortbench.model.hardware_names import kind
from ortbench.model.protocol import ListedEp
from ortbench.model.schema import MachineNoise

GOOD, KNOW, BAD = "good", "worth knowing", "bad"
VERDICTS = (GOOD, KNOW, BAD)


class Finding(NamedTuple):
    verdict: str  # one of `VERDICTS`
    text: str  # the fact, and what follows from it
    command: str = ""  # that mends it, or tells more; "" where none does


class Section(NamedTuple):
    title: str
    findings: Sequence[Finding]


def number(version: str | None, parts: int = 2) -> tuple[int, ...] | None:
    """The first numbers of a version, to be compared; None where it has none."""
    found = [int(part) for part in (version or "").split(".")[:parts] if part.isdigit()]
    return tuple(found) if len(found) == parts else None


_SCARCE = 0.1  # of memory
_IDLE = 0.05  # of a card
_SAME, _COARSE = 0.02, 0.10  # differences that a run of `_RUN_S` per mode, the default, can see
_RUN_S = 5.0
_NO_TURBO = "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"  # Intel's; AMD's is cpufreq/boost


def processor(facts: Facts) -> Iterator[Finding]:
    cpu = facts["cpu"]
    yield from _cores(cpu)
    yield from _clocks(cpu)
    if cpu["last_second"] is not None:
        yield _busy(cpu["last_second"]) or Finding(GOOD, f"{used_by_others(cpu['last_second'])} in the last second")
    memory = facts["memory"]
    if memory is None:
        return
    text = f"{units.size(memory['available'])} of {units.size(memory['total'])} memory are free"
    if memory["available"] < _SCARCE * memory["total"]:
        yield Finding(
            BAD,
            f"{text}: what does not fit is paged, which takes longest of all",
            "ps -eo rss,pid,comm --sort=-rss | head",
        )
    else:
        yield Finding(GOOD, text)


def _cores(cpu: Cpu) -> Iterator[Finding]:
    cores, usable, limit = cpu["cores"], cpu["usable"], cpu["limit"]
    if usable is not None:
        of = f" of {cores}" if cores is not None and cores > usable else ""
        said = f"{cpu['model']}: this process may run on {usable}{of} core{'' if (cores or usable) == 1 else 's'}"
        yield Finding(KNOW if of else GOOD, said)
    if limit is not None and limit < (usable or cores or math.inf):
        threads = max(1, math.floor(limit))
        text = (
            f"the container may take {units.count(limit, 'core')}' worth of time, and ONNX Runtime starts a thread "
            "for each core: all of them are stopped until the next period when it is spent"
        )
        yield Finding(BAD, text, f"ortbench run MODEL --ep cpu --intra-op-threads {threads}")
    elif usable is not None:
        yield Finding(GOOD, "no container limits its CPU time")


def _clocks(cpu: Cpu) -> Iterator[Finding]:
    governors = cpu["governors"]
    slow = [name for name in governors if name != "performance"]
    if slow:
        of = [f"{name} ({units.count(governors[name], 'core')})" for name in slow]
        text = f"the frequency governor is {listed(of)}: clocks follow the load, and short runs are timed at low ones"
        yield Finding(BAD, text, "sudo cpupower frequency-set -g performance")
    elif governors:
        yield Finding(GOOD, "the frequency governor is performance")
    if cpu["turbo"] is True:
        text = "turbo is on: clocks depend on temperature and on how many cores work"
        intel = "intel" in cpu["model"].lower()
        yield Finding(KNOW, text, _NO_TURBO if intel else "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost")
    elif cpu["turbo"] is False:
        yield Finding(GOOD, "turbo is off")
    elif not governors:
        yield Finding(
            KNOW,
            "this machine reports neither its frequency governor nor turbo, like most virtual machines: clocks may change between runs, so compare configurations in one run",
        )


def _busy(noise: MachineNoise | None) -> Finding | None:
    """That others take time from what is measured, in the words of a report; None on a quiet machine."""
    fact = busy_fact(noise)
    return None if fact is None else Finding(BAD, phrase(fact), WHO)


def cards(facts: Facts) -> Iterator[Finding]:
    for index, card in enumerate(facts["nvidia"]["cards"]):
        yield from _card(index, card)


def _card(index: int, card: Card) -> Iterator[Finding]:
    name = f"GPU {index}"
    if "error" in card:
        yield Finding(BAD, f"{name} does not answer: {card['error']}", "nvidia-smi")
        return
    clocks = []
    if "sm_mhz" in card and "sm_mhz_max" in card:
        clocks.append(f"SM clock {card['sm_mhz']} of {card['sm_mhz_max']} MHz")
    if "memory_mhz" in card and "memory_mhz_max" in card:
        clocks.append(f"memory clock {card['memory_mhz']} of {card['memory_mhz_max']} MHz")
    said = f"{name}: {', '.join([card.get('name', 'NVIDIA'), *clocks])}"
    highest = card.get("sm_mhz_max")
    if not clocks or highest is None:
        yield Finding(GOOD, said)
    else:
        text = f"{said} now; clocks follow the work and the temperature unless they are locked"
        yield Finding(KNOW, text, f"sudo nvidia-smi -i {index} -lgc {highest},{highest}")
    if card.get("persistence") is False:
        text = f"{name}: persistence mode is off, so the driver is loaded again whenever nothing has used the GPU"
        yield Finding(BAD, text, f"sudo nvidia-smi -i {index} -pm 1")
    elif card.get("persistence"):
        yield Finding(GOOD, f"{name}: persistence mode is on")
    yield from _power(index, card)
    yield from _company(index, card)


def _power(index: int, card: Card) -> Iterator[Finding]:
    limit, usual = card.get("power_limit_w"), card.get("power_default_w")
    if limit is not None and usual is not None and limit < usual:
        text = f"GPU {index}: its power is limited to {limit:.0f} W of {usual:.0f} W"
        yield Finding(KNOW, text, f"sudo nvidia-smi -i {index} -pl {usual:.0f}")
    slowed = card.get("slowed_by")
    if slowed:
        yield Finding(
            BAD, f"GPU {index}: it is slowed down now by {listed(slowed)}", f"nvidia-smi -i {index} -q -d PERFORMANCE"
        )
    elif slowed is not None:
        yield Finding(GOOD, f"GPU {index}: nothing slows it down now")


def _company(index: int, card: Card) -> Iterator[Finding]:
    processes, busy = card.get("processes"), card.get("busy")
    if processes:
        said = []
        for it in processes:
            memory = "" if it["memory_bytes"] is None else f", {units.size(it['memory_bytes'])}"
            said.append(f"{it['name'] or 'process'} ({it['pid']}{memory})")
        text = f"GPU {index}: {len(said)} other process{'' if len(said) == 1 else 'es'} on it: {listed(said)}"
        yield Finding(BAD, text, f"nvidia-smi -i {index}")
    elif busy is not None and busy > _IDLE:
        yield Finding(
            BAD, f"GPU {index}: it is busy {units.share(busy)} of the time with somebody else's work", "nvidia-smi"
        )
    elif processes is not None:
        yield Finding(GOOD, f"GPU {index}: no other process is on it")


def noise(facts: Facts) -> Iterator[Finding]:
    """What a run could not see here."""
    if (found := facts["noise"]) is not None:
        yield _noise(found)
        if _busy(facts["cpu"]["last_second"]) is None and (busy := _busy(found.get("machine"))) is not None:
            yield busy


def _noise(found: Noise) -> Finding:
    if found["problem"] is not None:
        return Finding(BAD, f"a small model does not run on the CPU: {found['problem']}")
    if (seen := visible(found)) is None:
        text = f"in {found['seconds']:g} s there were too few blocks to tell: this machine is very slow or busy"
        return Finding(BAD, text)
    text = (
        f"two identical measurements of a small model, of {found['seconds']:g} s each, differ by {units.share(abs(found['ratio'] - 1), 1)}: "
        f"a process of {_RUN_S:g} s per mode cannot tell differences below about {units.share(seen, 1)}"
    )
    if seen <= _SAME:
        return Finding(GOOD, text)
    if seen <= _COARSE:
        return Finding(KNOW, text)
    return Finding(BAD, f"{text}; measure when nothing else runs", WHO)


def visible(found: Noise) -> float | None:
    """The smallest difference that a run of `_RUN_S` could see, as a share; None where there are too few pairs.

    Half of the interval of the ratio, which shrinks with the square root of the time; how far the two measurements were apart
    does not go away with time, as it comes with the process.
    """
    interval = found.get("ci95")
    if interval is None:
        return None
    half = (interval[1] - interval[0]) / 2 * math.sqrt(found["seconds"] / _RUN_S)
    return max(half, abs(found["ratio"] - 1))  # also within its interval: who is shown one cannot see less


# The oldest driver for a major version of CUDA on Linux, from the table in CUDA's release notes.
_DRIVERS = {12: "525", 13: "580"}
_TO_LOAD = ("libcudart", "libcublas", "libcurand", "cudart", "cublas", "curand")  # the others are opened when wanted
_NSIGHT_OLD, _NVTX_NEW = (2024, 2), (0, 2, 12)  # which nvtx since then takes for listening to nothing
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
    lacking = [ep for ep in installed["eps"] if lacks_gpu(ep, facts["nvidia"]["present"])]
    for ep in installed["eps"]:
        if ep not in lacking:
            yield _provider(ep, _called(ep, names))
    if lacking:
        verb = "does" if len(lacking) == 1 else "do"
        without = list(dict.fromkeys(it["missing"] for it in lacking if it["missing"]))
        ies, are = ("ies", "are") if len(without) > 1 else ("y", "is")
        more = f", and the shared librar{ies} {listed(without)} {are} missing" if without else ""
        yield Finding(KNOW, f"{listed([_called(ep, names) for ep in lacking])} {verb} not load: {NO_GPU}{more}")
    for warning in installed.get("warnings", ()):
        if warning["code"] in (SHARED, MISNAMED):
            yield Finding(KNOW, warning["message"])


def _called(ep: ListedEp, names: Sequence[str]) -> str:
    version = f" {ep['version']}" if ep["version"] else ""
    package = f" of {ep['package']}" if names.count(ep["name"]) > 1 and ep["package"] else ""
    return f"{ep['name']}{version}{package}"


def _provider(ep: ListedEp, name: str) -> Finding:
    if ep["problem"] is None:
        kinds = [kind(it["hardware"]) for it in ep["devices"] if "vendor" in it["hardware"]]
        if ep["devices"] and not kinds:
            return Finding(
                KNOW, f"{name} is known to ONNX Runtime by its name alone: only a session shows whether it runs"
            )
        if kinds:
            return Finding(GOOD, f"{name} loads and runs on {listed(kinds)}")
        return Finding(
            KNOW,
            f"{name} loads and finds no device that it can use here: check which hardware it takes, and the driver",
        )
    text = f"{name} does not load: {problem_of(ep)}"
    where = None if ep["missing"] is None else origin(ep["missing"])
    if where is None:
        return Finding(BAD, f"{name} does not load: {ep['problem']}")
    return Finding(BAD, text if where.command else f"{text} ({where.what})", where.command)


def cuda(facts: Facts) -> Iterator[Finding]:
    """CUDA, cuDNN and the driver against what this ONNX Runtime was built for; nothing where there is no card."""
    nvidia, installed = facts["nvidia"], facts["installed"]
    built = None if installed is None else installed["cuda"]
    if not nvidia["present"]:
        return
    yield _driver(nvidia, built)
    if built is not None:
        yield from _libraries(built)
    elif installed is not None:
        if any(is_nvidia(ep["name"]) for ep in installed["eps"]):  # of a package: ONNX Runtime itself need not have one
            return
        text = "this ONNX Runtime was built without CUDA, so it does not use the NVIDIA GPU"
        yield Finding(KNOW, text, f"pip uninstall -y onnxruntime && pip install '{CUDA_PACKAGE}'")


def _driver(nvidia: Nvidia, built: Cuda | None) -> Finding:
    if nvidia["driver"] is None:
        text = "there is an NVIDIA GPU without a working driver: install the driver, or give the container access to the GPU"
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


def _libraries(built: Cuda) -> Iterator[Finding]:
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
                needed_to_load,
            )
    for library in built["libraries"]:
        places, loaded = library["found"], library["loaded"]
        if len(places) > 1:
            taken = f"{loaded} is the one loaded" if loaded else "the first on the search path is taken"
            yield Finding(KNOW, f"{library['name']} is there {len(places)} times, in {listed(places)}; {taken}")
        elif loaded or places:
            yield Finding(GOOD, f"{library['name']}: {loaded or places[0]}")


def _missing(names: Sequence[str], others: Sequence[str], to_load: bool) -> Finding:
    """Libraries that are not there, and others of them that do not help."""
    needed = "the CUDA EP does not load without" if to_load else "some operators need"
    versions = f"; other versions do not help: {', '.join(others)}" if others else ""
    text = f"{needed} {listed(names)}: not found{versions}"
    return Finding(BAD if to_load else KNOW, text, f"pip install '{CUDA_PACKAGE}'")


def profiler(facts: Facts) -> Iterator[Finding]:
    found = facts["profiler"]
    if found["problem"] is not None:
        yield Finding(BAD, f"Nsight Systems does not start: {found['problem']}", "nsys --version")
    elif found["nsys"] is not None:
        yield _nsight(found, found["nsys"])
    else:
        yield Finding(
            KNOW, f"Nsight Systems is not installed, without which 'ortbench profile' records nothing ({_NSIGHT})"
        )
    if found["nvtx"] is None and (found["nsys"] is not None or facts["nvidia"]["present"]):
        yield Finding(KNOW, "the package nvtx is not installed: profilers see no ranges", "pip install nvtx")


def _nsight(found: Profiler, nsys: str) -> Finding:
    version, nvtx = number(nsys), number(found["nvtx"], 3)
    if version is None or nvtx is None:
        return Finding(GOOD, f"Nsight Systems {nsys}")
    if version <= _NSIGHT_OLD and nvtx >= _NVTX_NEW:
        return Finding(
            KNOW,
            f"Nsight Systems {nsys} takes ortbench's ranges; other programs' with nvtx {found['nvtx']} it does not take",
        )
    return Finding(GOOD, f"Nsight Systems {nsys} takes ranges from nvtx {found['nvtx']}")


_SECTIONS = {
    "ONNX Runtime": packages,
    "Execution providers": providers,
    "CUDA": cuda,
    "NVIDIA GPUs": cards,
    "Processor and memory": processor,
    "Profiling": profiler,
    "Noise": noise,
}


def examine(facts: Facts) -> list[Section]:
    """The sections that have something to say."""
    found = [Section(title, list(judge(facts))) for title, judge in _SECTIONS.items()]
    return [section for section in found if section.findings]


def usable(facts: Facts) -> list[str]:
    """The EPs that load and have a device, as `--ep` takes them."""
    installed, short = facts["installed"], {name: it for it, name in SHORT_NAMES.items()}
    eps = [] if installed is None else installed["eps"]
    names = [ep["name"] for ep in eps if any("vendor" in it["hardware"] for it in ep["devices"])]
    return [short.get(name, name) for name in dict.fromkeys(names)]


def works(facts: Facts) -> bool:
    """Whether ONNX Runtime itself does: it loads, and runs a small model if that was tried."""
    return facts["installed"] is not None and (facts["noise"] is None or facts["noise"]["problem"] is None)
