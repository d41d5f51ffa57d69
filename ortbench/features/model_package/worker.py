"""The variant of a model package that ONNX Runtime chooses for an EP. Its Python has packages from 1.32 on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnxruntime as ort

from ortbench.core.errors import BadInput, ort_text
from ortbench.plan.target import target_from, with_own
from ortbench.worker import State, providers
from ortbench.worker.libraries import set_up_onnxruntime
from ortbench.worker.session import make_session_options

if TYPE_CHECKING:
    from ortbench.features.model_package.model import Selected

_NAME = "name the .onnx file of a variant"
_PATHS = ("session.model_external_initializers_file_folder_path", "ep.context_file_path")  # entries that are paths


def select_variant(state: State, folder: str, target: dict[str, Any]) -> Selected:
    """Have a variant chosen. Raises `BadInput`: this ONNX Runtime opens no packages, this is none, or nothing of it is for the EP."""
    set_up_onnxruntime()
    if not hasattr(ort, "ModelPackageContext"):
        version = f"ONNX Runtime {ort.__version__} does not open in Python (1.32 does)"
        raise BadInput(f"{folder} is a model package, which {version}: {_NAME}")
    asked = target_from(target)
    provider = providers.find(asked)
    options = make_session_options(with_own(asked, provider.name), provider, {})
    root = str(Path(folder).resolve())
    try:
        package = ort.ModelPackageContext(root)
        components = package.get_component_names()
        described = ort.ModelPackage.open(root).get_info()["components"]
    except Exception as error:
        raise BadInput(f"{folder} is no model package that ONNX Runtime opens: {ort_text(error)}") from None
    if len(components) != 1:
        several = f"{len(components)} components ({', '.join(components) or 'none'})"
        raise BadInput(f"{folder} has {several}, and a run measures one model: {_NAME}")
    variants = {it["name"]: it for it in described[0]["variants"]}
    listed = ", ".join(f"{name} ({it['ep'] or 'any EP'})" for name, it in variants.items())
    try:
        selected = package.select_component(components[0], ort.ModelPackageOptions(options))
        chosen = selected.get_selected_variant_name()
    except Exception:
        chosen = None
    # Of an EP without EP device it knows nothing, and chooses the CPU's.
    if chosen is None or (provider.policy is None and variants[chosen]["ep"] != provider.name):
        raise BadInput(f"{folder} has no variant that ONNX Runtime chooses for {provider.name}: there are {listed}")
    variant = variants[chosen]
    own = json.loads(variant["executor_info"].get("ort") or "{}")
    if "model_file" not in own:
        raise BadInput(f"{folder}: its variant {chosen} names no model_file for ONNX Runtime")

    def resolve(path: str) -> str:
        try:
            return str(package.resolve_string_ref(path, variant["variant_directory"], True))
        except Exception as error:
            raise BadInput(f"{folder}: its variant {chosen}: {ort_text(error)}") from None

    entries, path = own.get("session_options", {}), Path(resolve(own["model_file"]))
    inside = path.is_relative_to(root)  # as it need not be where a package is installed
    return {
        "path": str(Path(folder, path.relative_to(root)) if inside else path),
        "session_config": {key: resolve(value) if key in _PATHS else value for key, value in entries.items()},
        "options": dict(own.get("provider_options", {})),
        "note": {"code": "model-package", "message": f"{folder}: ONNX Runtime chose the variant {chosen} of {listed}"},
    }
