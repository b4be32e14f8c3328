// Files of the programs: JSON, lines of JSON, and CSV.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace dtn {

// Returns the bytes of a file; none if it cannot be opened. Throws std::ios_base::failure for a
// folder.
inline std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns null if there is no file, or no valid JSON in it.
inline nlohmann::ordered_json json_of_file(const std::filesystem::path& path) {
  auto json = nlohmann::ordered_json::parse(text_of_file(path), nullptr, false);
  return json.is_discarded() ? nlohmann::ordered_json() : json;
}

// Calls work(object) for each line that is an object. Skips lines that a killed process left
// incomplete.
template <class Work>
void each_json_line(std::istream& file, Work work) {
  for (std::string text; std::getline(file, text);) {
    const auto line = nlohmann::ordered_json::parse(text, nullptr, false);
    if (line.is_object()) work(line);
  }
}
template <class Work>
void each_json_line(const std::filesystem::path& path, Work work) {
  std::ifstream file(path);
  each_json_line(file, work);
}

// Returns the last line that is an object; null if there is none.
inline nlohmann::ordered_json last_json_line(const std::filesystem::path& path) {
  nlohmann::ordered_json last;
  each_json_line(path, [&](const nlohmann::ordered_json& line) { last = line; });
  return last;
}

// Returns NaN for a missing number. Non-finite values are written as null.
inline double number_at(const nlohmann::ordered_json& object, const std::string& key) {
  const auto found = object.find(key);  // end() if it is not an object
  const bool number = found != object.end() && found->is_number();
  return number ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

inline nlohmann::ordered_json json_of(std::optional<double> value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

// File names are bytes; parts that are not UTF-8 are replaced.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace dtn
