// As much of MATLAB's MAT-file format, level 5, as the development kit of ILSVRC needs: one array
// of structures with small fields (MathWorks, "MAT-File Format", chapter 1).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtn {

// A field of a structure: its text, or its number when it is a single one.
struct MatValue {
  std::string text;
  std::optional<double> number;
};

// values[element][field] of the array of structures called `variable`, with the fields asked for.
// The bytes are not trusted; DataError names the file, the offset and the fault. `name` stands for
// the file in messages.
std::vector<std::vector<MatValue>> parse_mat_structs(std::span<const std::byte> bytes,
                                                     const std::string& name,
                                                     const std::string& variable,
                                                     std::span<const std::string> fields);

}  // namespace dtn
