#!/usr/bin/env bash
# Installations by `cmake --install` and `cpack` work without the source: programs find their
# configs and the MPI module after the installation is moved, a program outside the tree builds
# against it, and no file names the source folder.
source "$(dirname "$0")/lib/common.sh"

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=$(dirname "$bin")
cmake --install "$build" --prefix "$work/first" > "$log"
mv "$work/first" "$work/prefix"
prefix=$work/prefix

# without_source COMMAND...: hides the source and the build from the command, if the system allows
# it.
hide='mount -t tmpfs none "$0" && exec "$@"'
if unshare --mount bash -c "$hide" "$source_folder" true 2> /dev/null; then
  without_source() { unshare --mount bash -c "$hide" "$source_folder" "$@"; }
else
  echo "SKIPPED: running with the source hidden (mounting is not allowed here)"
  without_source() { "$@"; }
fi
# runs PATTERN COMMAND...: the command must succeed without the source and print the pattern.
runs() {
  checks=$((checks + 1))
  (cd "$work" && without_source "${@:2}") > "$log" 2>&1 ||
    fail "'${*:2}' failed: $(cat "$log")"
  expect_text "$1"
}

echo "programs"
version=$(sed -n 's/^project(dtn VERSION \([0-9.]*\).*/\1/p' "$source_folder/CMakeLists.txt")
for program in dtn dtn-{train,eval,predict,sample,average,export,analyze,plot,sweep,info,get,data,bench}; do
  runs "^dtn $version, (GCC|Clang) [0-9.]+, (oneDNN|Eigen) [0-9.]+, " "$prefix/bin/$program" --version
  expect_file "$prefix/share/man/man1/$program.1"
  expect_file "$prefix/share/bash-completion/completions/$program"
done
runs "^Usage: dtn-mpirun " "$prefix/bin/dtn-mpirun" --help
expect_file "$prefix/share/man/man1/dtn-mpirun.1"
expect_equal "what dtn-train is" "$(readlink "$prefix/bin/dtn-train")" dtn
runs 'parameters +5710672' "$prefix/bin/dtn-info" --config vit_t_dtn
tiny_config "$work/tiny.yaml"
runs 'step 2/2' "$prefix/bin/dtn-train" --config "$work/tiny.yaml" --set schedule.steps=2 \
  --threads 1 --output "$work/run"
runs 'top-1' "$prefix/bin/dtn-eval" --checkpoint "$work/run/checkpoints/last" --threads 1
if [[ -e $build/lib/dtn/dtn_mpi.so ]] && command -v mpirun > /dev/null; then
  runs 'step 2/2' env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    mpirun --oversubscribe --bind-to none -n 2 "$prefix/bin/dtn-train" \
    --config "$work/tiny.yaml" --set schedule.steps=2 --threads 1 --output "$work/job"
fi

echo "no file names the source folder"
checks=$((checks + 1))
found=$(grep -rlF -- "$source_folder/" "$prefix" || true)
[[ -z $found ]] || fail "these files name $source_folder: $found"

echo "a program of one's own"
cp -r "$source_folder/examples/own_normalizer" "$work/own"
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
cmake -S "$work/own" -B "$work/own/build" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" > "$log" 2>&1 || fail "cmake: $(cat "$log")"
cmake --build "$work/own/build" > "$log" 2>&1 || fail "building: $(cat "$log")"
own=$work/own/build/own_normalizer
runs "^dtn $version, " "$own" --version
runs 'type: mean_size' "$own" --config vit_t_dtn --set model.norm.type=mean_size --print-config
runs 'step 2/2' "$own" --config "$work/tiny.yaml" --set model.norm.type=mean_size \
  --set schedule.steps=2 --threads 1 --output "$work/own_run"
runs 'step 3/3' "$own" --resume "$work/own_run" --set schedule.steps=3 --threads 1
runs '^mean_size$' "$own" info --norms
runs '^vit_mean_size +vit +96 ' "$own" info --presets
echo 'model: {preset: vit_mean_size, num_classes: 10}' > "$work/own_preset.yaml"
runs 'type: mean_size' "$own" --config "$work/own_preset.yaml" --print-config
runs '"forward_ms"' "$own" bench norm --type mean_size --shape 2,9,24 --heads 3 --steps 1 --json
runs '"images_per_second"' "$own" bench train --config "$work/tiny.yaml" \
  --set model.norm.type=mean_size --steps 1 --warmup 0 --json
runs '^\{"top1":' "$own" eval --checkpoint "$work/own_run" --threads 1 --json
cat > "$work/own_sweep.yaml" << 'EOS'
base: tiny.yaml
set: {schedule.steps: 2}
variants: [{name: ln, set: {model.norm: ln}}, {name: mine, set: {model.norm: mean_size}}]
EOS
# Without --trainer, dtn-sweep does not know the normalizer.
expect 2 dtn-sweep --config "$work/own_sweep.yaml" --output "$work/unknown"
expect_text mean_size
sweep=(--config "$work/own_sweep.yaml" --output "$work/own_sweep" --threads 1)
runs '2 of 2 runs finished' "$prefix/bin/dtn-sweep" --trainer "$own" "${sweep[@]}"
runs 'nothing is left to do' "$own" sweep "${sweep[@]}" --dry-run
expect_equal "the command in the table" "$(grep '^own_normalizer' "$work/own_sweep/table.md")" \
  'own_normalizer sweep --config .../own_sweep.yaml'
expect 2 dtn-sweep --trainer="$work/absent" "${sweep[@]}"
expect_text 'absent: No such file'
mkdir "$work/configs"
cp "$work/tiny.yaml" "$work/configs/only_here.yaml"
runs 'preset:' env DTN_CONFIGS="$work/absent:$work/configs" "$own" --config only_here --print-config

if command -v dpkg-deb > /dev/null; then
  echo "a package"
  checks=$((checks + 1))
  cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work/package" > "$log" 2>&1 ||
    fail "cpack: $(cat "$log")"
  package=$(compgen -G "$work/package/dtn_${version}_*.deb")
  dpkg-deb --info "$package" > "$log"
  expect_text "Version: $version" 'Depends: .*libyaml-cpp'
  dpkg-deb --contents "$package" > "$log"
  expect_text '/usr/bin/dtn$' '/usr/bin/dtn-train -> dtn$' '/usr/share/dtn/configs/.*/vit_s_star_dtn.yaml' \
    '/usr/include/dtn/dtn.h' '/dtnConfig.cmake' '/usr/share/doc/dtn/copyright'
fi
