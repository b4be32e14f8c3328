#!/usr/bin/env python3
"""Fails if a layer includes a higher layer, or a name that it must not see.

tools -> apps -> {train, plot}; train -> tasks -> {models, optim, data} -> nn -> ops -> autograd ->
kernels -> core; data -> {io, kernels} -> core; plot -> io; cuda -> {kernels, dist} -> core; train,
optim and nn -> dist -> core; all layers may include config structs. Within src/apps, sweep, bench
and recipe include estimate, sweep and eval include report, report includes analyze, every app
includes common, and the file with the main function of a program may include anything. Installed
headers (include/) include only installed headers, dtn/dtn.h includes all of them, and no folder
holds more than 40 files.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()

# Layers that each layer may include, besides itself, core and config.
BELOW = {
    "core": set(),
    "config": set(),
    "kernels": set(),
    "dist": set(),
    "cuda": {"kernels", "dist"},
    "autograd": {"kernels"},
    "ops": {"autograd", "kernels"},
    "nn": {"dist", "ops", "autograd", "kernels"},
    "io": set(),
    "plot": {"io"},
    "models": {"dist", "nn", "ops", "autograd", "kernels", "io"},
    "optim": {"dist", "nn", "ops", "autograd", "kernels"},
    "data": {"kernels", "io"},
    "tasks": {"dist", "models", "optim", "data", "nn", "ops", "autograd", "kernels", "io"},
}
BELOW["train"] = BELOW["tasks"] | {"tasks"}
BELOW["apps/common"] = BELOW["train"] | {"train", "plot", "app"}
APPS = {path.name for path in (ROOT / "src/apps").iterdir()} - {"common"}
BELOW |= {f"apps/{app}": BELOW["apps/common"] | {"apps/common"} for app in APPS}
BELOW["apps/bench"].add("apps/estimate")
BELOW["apps/recipe"].add("apps/estimate")
BELOW["apps/sweep"] |= {"apps/estimate", "apps/report"}
BELOW["apps/report"].add("apps/analyze")
BELOW["apps/eval"].add("apps/report")
BELOW["app"] = BELOW["tasks"] | {"tasks"}  # include/dtn/app
BELOW["main"] = BELOW["tools"] = set(BELOW)  # src/apps/*/*_main.cpp: the programs themselves
EVERYTHING = ROOT / "include/dtn/dtn.h"
BELOW[EVERYTHING.name] = set(BELOW)

# Libraries that only the given files may include.
ONLY_IN = {
    "yaml-cpp": ["src/config/yaml.cpp"],
    "spdlog": ["src/core/log.cpp"],
    "mpi": ["src/dist/mpi/"],
    "nccl": ["src/cuda/"],
    "dnnl": ["src/kernels/gemm/gemm_onednn.cpp"],
    "Eigen": ["src/kernels/gemm/gemm_eigen.cpp", "src/apps/analyze/moments.cpp", "src/tasks/judging/frechet.cpp"],
    "png": ["src/io/image/png.cpp"],
    "webp": ["src/io/image/webp.cpp"],
    "stb": ["src/io/image/stb.cpp"],
    "protozero": ["src/io/tensorboard.cpp", "src/apps/export/onnx_graph.cpp"],
    "CLI": ["src/apps/", "tools/"],
    "curl": ["src/apps/get/curl_library.h"],
    "cuda_runtime": ["src/cuda/", "src/kernels/cuda/"],
    "cublasLt": ["src/cuda/"],
    "nvtx3": ["src/cuda/"],
}
# Headers of core that kernels may include: plain data only. Kernels are compiled for instruction
# sets that the machine may lack, and the linker merges the inline functions that they include.
KERNEL_CORE = {"check", "denormals", "dtype", "host_device", "normal_noise", "parallel", "philox",
               "queue", "scratch"}
MOST_FILES = 40  # per folder, so that newcomers keep an overview

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def layer_of(path):
    parts = path.relative_to(ROOT).parts
    if parts[0] == "include":
        return parts[2]
    if parts[:2] == ("src", "apps"):
        return "main" if path.name.endswith("_main.cpp") else "apps/" + parts[2]
    if parts[0] == "src":
        return parts[1]
    return parts[0]


def target_layer(name):
    parts = name.split("/")
    if parts[0] == "dtn" and len(parts) == 3:
        return parts[1]
    if parts[0] == "apps":
        return "apps/" + parts[1]
    if len(parts) > 1 and parts[0] in BELOW:
        return parts[0]
    return None


def main():
    faults = []
    files = [p for d in ("include", "src", "tools") for p in (ROOT / d).rglob("*")
             if p.suffix in (".h", ".cpp", ".cu", ".cuh")]
    if not files:
        sys.exit("check_includes: found no sources under " + str(ROOT))
    for path in sorted(files):
        layer = layer_of(path)
        where = path.relative_to(ROOT).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            name = match.group(1)
            target = target_layer(name)
            if target and target not in BELOW[layer] | {layer, "core", "config"}:
                faults.append(f"{where}:{number}: {layer} may not include {name}")
            if path.relative_to(ROOT).parts[0] == "include" and '"' in line:
                if not (ROOT / "include" / name).exists():
                    faults.append(f"{where}:{number}: an installed header may not include {name}")
            if layer == "kernels" and target == "core":
                if pathlib.PurePath(name).stem not in KERNEL_CORE:
                    faults.append(f"{where}:{number}: a kernel may not include {name}")
            library = name.split("/")[0].split(".")[0]
            if library in ONLY_IN and not any(where.startswith(w) for w in ONLY_IN[library]):
                faults.append(f"{where}:{number}: {name} belongs in {', '.join(ONLY_IN[library])}")
    for folder, count in collections.Counter(path.parent for path in files).items():
        if count > MOST_FILES:
            faults.append(f"{folder.relative_to(ROOT)}: {count} files; split it in two")
    included = set(re.findall(r'"(.+)"', EVERYTHING.read_text()))
    for header in sorted((ROOT / "include").rglob("*.h")):
        name = header.relative_to(ROOT / "include").as_posix()
        if header != EVERYTHING and name not in included:
            faults.append(f"{EVERYTHING.relative_to(ROOT)}: lacks {name}")
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(f"check_includes: {len(faults)} includes go the wrong way")
    print(f"check_includes: {len(files)} files in order")


if __name__ == "__main__":
    main()
