#!/usr/bin/env bash
# Installs what the build, the tests and the quickstart need on Debian 12 or a relative of it.
# Asks no questions, does nothing when all is there, and may be run as root or with sudo.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config
  libdnnl-dev ocl-icd-opencl-dev libeigen3-dev     # matrix products (oneDNN asks for OpenCL)
  libyaml-cpp-dev libcli11-dev nlohmann-json3-dev  # configs, command line, JSON
  libspdlog-dev libprotozero-dev                   # logs, files of TensorBoard and ONNX
  libjpeg-dev libpng-dev libwebp-dev libstb-dev    # images
  zlib1g-dev                                       # compression
  libcurl4-openssl-dev ca-certificates             # dtn-get
  libopenmpi-dev openmpi-bin                       # training in several processes
  librsvg2-bin fonts-dejavu-core                   # pictures as PNG (without: as SVG alone)
  libgtest-dev python3                             # tests
  clang libclang-rt-14-dev libomp-dev              # fuzz targets
  clang-format clang-tidy git                      # tools/lint.sh
  dataset-fashion-mnist                            # the quickstart's images
)

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed' || missing+=("$p")
done
if ((${#missing[@]} == 0)); then
  echo "install-deps: everything is installed"
  exit 0
fi

sudo=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || {
    echo "install-deps: missing: ${missing[*]}" >&2
    echo "install-deps: run this script as root, or install sudo" >&2
    exit 1
  }
  sudo=(sudo)
fi
echo "install-deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  "${missing[@]}" >/dev/null
echo "install-deps: done"
