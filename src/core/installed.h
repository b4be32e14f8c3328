// Finds what is installed with the library and read when a program runs: configs, and the module
// that speaks MPI. No folder of the machine that built it is remembered.
#pragma once

#include <filesystem>
#include <vector>

namespace dtn {

// Where `path`, for instance share/dtn/configs, may lie, the nearest first:
//   <folder of the program>/../<path>   in an installation, and in a build folder
//   <prefix>/<path>                     for a user's program that was linked with the library there
std::vector<std::filesystem::path> installed_places(const std::filesystem::path& path);

namespace detail {
// The prefix of the installation, or "". find_package(dtn) has users' programs compile a definition
// of their own, which the linker takes in place of the library's.
const char* installation_prefix();
}  // namespace detail

}  // namespace dtn
