// Width of the terminal that a program writes to.
#pragma once

#include <cstddef>

namespace dtn {

// Columns of the terminal on standard output, or on standard error; `otherwise` if there is none.
std::size_t output_columns(std::size_t otherwise = 100);
std::size_t error_columns(std::size_t otherwise = 80);

}  // namespace dtn
