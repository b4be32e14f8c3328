// Finds files that are installed with the library and read at run time: configs, and the MPI
// module. The library stores no folder of the machine that built it.
#pragma once

#include <filesystem>
#include <vector>

namespace dtn {

// Returns the places where `path`, for instance share/dtn/configs, may be, the nearest first:
//   <folder of the program>/../<path>   in an installation, and in a build folder
//   <prefix>/<path>                     for a user program linked with an installed library
std::vector<std::filesystem::path> installed_places(const std::filesystem::path& path);

namespace detail {
// Prefix of the installation, or "". Through find_package(dtn), a user's program compiles a second
// definition, which the linker takes instead of the library's.
const char* installation_prefix();
}  // namespace detail

}  // namespace dtn
