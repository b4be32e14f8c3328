#include "core/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace dtn {
namespace {

std::size_t columns_of(int descriptor, std::size_t otherwise) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : otherwise;
}

}  // namespace

std::size_t output_columns(std::size_t otherwise) { return columns_of(STDOUT_FILENO, otherwise); }
std::size_t error_columns(std::size_t otherwise) { return columns_of(STDERR_FILENO, otherwise); }

}  // namespace dtn
